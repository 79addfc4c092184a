package callback

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// raw sends bytes and returns all that comes back until the server closes or has answered n times.
func raw(t *testing.T, addr, request string, n int) (answers []*http.Response, closed bool) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for range n {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return answers, true
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		answers = append(answers, resp)
		if resp.Close {
			_, err := r.ReadByte()
			return answers, err == io.EOF //nolint:errorlint // only a bare EOF
		}
	}
	return answers, false
}

// TestWire: requests that no client library sends.
func TestWire(t *testing.T) {
	t.Parallel()
	const body = "x"
	head := "POST /cb/" + tokenOf + " HTTP/1.1\r\nHost: h\r\nX-Hub-Signature: " + sign(body) + "\r\n"
	chunked := "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
	smuggled := "GET /cb/" + tokenOf + query("denied", topic, "") + " HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, tc := range map[string]struct {
		request  string
		statuses []int
		closed   bool
		denied   int
	}{
		"content, twice on a connection": {head + "Content-Length: 1\r\n\r\nx" + head + "Content-Length: 1\r\n\r\nx", []int{200, 200}, false, 0},
		"chunked":                        {head + chunked, []int{200}, true, 0},
		"chunked, then another":          {head + chunked + smuggled, []int{200}, true, 0},
		"CL and TE":                      {head + "Content-Length: 5\r\n" + chunked + smuggled, []int{200}, true, 0},
		"TE and CL":                      {head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\nx\r\n0\r\n\r\n" + smuggled, []int{200}, true, 0},
		"two lengths":                    {head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx" + smuggled, []int{400}, true, 0},
		"unknown transfer coding":        {head + "Transfer-Encoding: gzip\r\n\r\nx", []int{501}, true, 0},
		"bad chunks":                     {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + smuggled, []int{400}, true, 0},
		"cut":                            {head + "Content-Length: 2\r\n\r\nx", nil, false, 0}, // see below
		"two slashes first":              {strings.Replace(head, "/cb", "//cb", 1) + "Content-Length: 0\r\n\r\n", []int{404}, false, 0},
		"two slashes":                    {strings.Replace(head, "/cb/", "/cb//", 1) + "Content-Length: 0\r\n\r\n", []int{404}, false, 0},
		"dots":                           {strings.Replace(head, "/cb/", "/a/../cb/", 1) + "Content-Length: 0\r\n\r\n", []int{404}, false, 0},
		"absolute form":                  {strings.Replace(head, "/cb/", "http://h/cb/", 1) + "Content-Length: 1\r\n\r\nx", []int{200}, false, 0},
		"doubled ?":                      {"GET /cb/" + tokenOf + "??" + query("denied", topic, "")[1:] + " HTTP/1.1\r\nHost: h\r\n\r\n", []int{200}, false, 1},
		"semicolon in the query":         {"GET /cb/" + tokenOf + query("denied", topic, "") + "&a=1;b=2 HTTP/1.1\r\nHost: h\r\n\r\n", []int{200}, false, 1},
		"bad escape in the query":        {"GET /cb/" + tokenOf + query("denied", topic, "") + "&a=%zz HTTP/1.1\r\nHost: h\r\n\r\n", []int{200}, false, 1},
		"OPTIONS *":                      {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", []int{404}, false, 0},
		"CONNECT":                        {"CONNECT /cb/" + tokenOf + " HTTP/1.1\r\nHost: h\r\n\r\n", []int{405}, false, 0},
		"HTTP/1.0":                       {strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1) + "Content-Length: 1\r\n\r\nx", []int{200}, true, 0},
		"h2c preface":                    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{404}, true, 0},
		"huge header":                    {head + "X: " + strings.Repeat("x", 32<<10) + "\r\nContent-Length: 1\r\n\r\nx", []int{431}, true, 0},
		"100-continue, taken":            {head + "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx", []int{100, 200}, false, 0},
		"100-continue, too large":        {head + "Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n", []int{413}, true, 0},
		"100-continue, unknown token":    {"POST /cb/nobody HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n", []int{404}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(o *Options) { o.MaxBody = 1 << 20 })
			if name == "cut" {
				cutShort(t, s, tc.request)
				return
			}
			answers, closed := raw(t, s.addr, tc.request, len(tc.statuses))
			var statuses []int
			for _, a := range answers {
				statuses = append(statuses, a.StatusCode)
			}
			if fmt.Sprint(statuses) != fmt.Sprint(tc.statuses) || closed != tc.closed {
				t.Errorf("answered %v, closed %v; want %v, %v", statuses, closed, tc.statuses, tc.closed)
			}
			if len(s.keeper.denied) != tc.denied {
				t.Errorf("denied %q", s.keeper.denied)
			}
		})
	}
}

// cutShort: a notification of which half is missing is not kept, whoever signed it.
func cutShort(t *testing.T, s *site, request string) {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
		defer resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Error(resp.Status)
		}
	}
	if len(s.store.deliveries()) > 0 {
		t.Error("half a notification was kept")
	}
}

// TestHalfClosed: some simple senders end their half at once; they are answered all the same.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for _, request := range []string{
		"POST /cb/" + tokenOf + " HTTP/1.1\r\nHost: h\r\nX-Hub-Signature: " + sign("x") + "\r\nContent-Length: 1\r\n\r\nx",
		"GET /cb/" + tokenOf + query("subscribe", topic, "abc") + " HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, request)
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 OK\r\n") {
			t.Errorf("answered %q, %v", answer, err)
		}
		_ = c.Close()
	}
}

// TestTooLargeIsHeard: a sender that looks at the answer only after it sent everything reads a 413, and not a reset.
func TestTooLargeIsHeard(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.MaxBody = 1 << 20 })
	big := strings.Repeat("x", 4<<20)
	for _, framing := range []string{
		"Content-Length: " + strconv.Itoa(len(big)) + "\r\n\r\n" + big,
		"Transfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(big)), 16) + "\r\n" + big + "\r\n0\r\n\r\n",
	} {
		answers, _ := raw(t, s.addr, "POST /cb/"+tokenOf+" HTTP/1.1\r\nHost: h\r\n"+framing, 1)
		if len(answers) != 1 || answers[0].StatusCode != 413 {
			t.Errorf("answers %v", answers)
		}
	}
	eventually(t, "the tally", func() bool { return s.store.tally(1).RejectedTooLarge == 2 })
	s.answered(t)
}

// TestBasePath: the base URL is the operator's, however it is written.
func TestBasePath(t *testing.T) {
	t.Parallel()
	for base, path := range map[string]string{
		"": "/", "/": "/", "/cb": "/cb/", "/cb/": "/cb/", "cb": "/cb/", "/a/b%2Fc": "/a/b%2Fc/",
	} {
		s := serve(t, func(o *Options) { o.BasePath = base })
		resp, _ := ask(t, client(t), "GET", "http://"+s.addr+path+tokenOf+query("subscribe", topic, "abc"), "")
		if resp.StatusCode != 200 {
			t.Errorf("%q: %s", base, resp.Status)
		}
		if resp, _ := ask(t, client(t), "GET", "http://"+s.addr+"/x"+path+tokenOf+query("subscribe", topic, "abc"), ""); resp.StatusCode != 404 {
			t.Errorf("%q: %s", base, resp.Status)
		}
	}
}
