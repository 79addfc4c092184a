package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"resyncd/cmd/internal/companion"
)

// childVariable has the test program be rshub itself, so that it can be killed.
const childVariable = "RSHUB_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// run is the program without its process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return companion.Run(ctx, help(), args, stdout, stderr, serve)
}

// The tests that run the program do so one after another: urfave/cli has state of its own.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "hub.db")
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	empty, blank := write("empty", "\n"), write("blank", "a b")
	for name, c := range map[string]struct {
		args string
		code int
		want string
	}{
		"help":             {"--help", 0, "--publisher-token-file"},
		"nothing":          {"", 2, "--listen is missing"},
		"no state":         {"--listen :0", 2, "--state is missing"},
		"stray":            {"--listen :0 --state " + state + " more", 2, `argument "more": it takes flags only`},
		"flag after stray": {"--listen :0 more --state " + state, 2, "reads none after the first"},
		"unknown flag":     {"--listen :0 --nothing", 2, "-nothing"},
		"retry base":       {"--listen :0 --state " + state + " --retry-base 0s", 2, "--retry-base 0s"},
		"no duration":      {"--listen :0 --state " + state + " --retry-base 15", 2, "retry-base"},
		"lease":            {"--listen :0 --state " + state + " --max-lease -1h", 2, "--max-lease -1h"},
		"leases":           {"--listen :0 --state " + state + " --max-lease 1h --min-lease 2h", 2, "leases"},
		"queue":            {"--listen :0 --state " + state + " --queue 0", 2, "--queue 0"},
		"network":          {"--listen :0 --state " + state + " --allow 127.0.0.1", 2, `--allow "127.0.0.1"`},
		"topic network":    {"--listen :0 --state " + state + " --allow-topics 10", 2, `--allow-topics "10"`},
		"per topic":        {"--listen :0 --state " + state + " --max-per-topic -1", 2, "--max-per-topic -1"},
		"per host":         {"--listen :0 --state " + state + " --max-per-host 0", 2, "--max-per-host 0"},
		"topics":           {"--listen :0 --state " + state + " --topics https://a/,b", 2, `"b"`},
		"url":              {"--listen :0 --state " + state + " --url nowhere", 2, "hub URL"},
		"signature":        {"--listen :0 --state " + state + " --signature md5", 2, "md5"},
		"log level":        {"--listen :0 --state " + state + " --log-level loud", 2, "loud"},
		"no token file":    {"--listen :0 --state " + state + " --publisher-token-file " + dir + "/none", 2, "--publisher-token-file"},
		"empty token":      {"--listen :0 --state " + state + " --publisher-token-file " + empty, 2, "one token"},
		"blank token":      {"--listen :0 --state " + state + " --publisher-token-file " + blank, 2, "one token"},
		"address":          {"--listen 300.1.1.1:0 --state " + state, 1, "listen"},
		"foreign state":    {"--listen 127.0.0.1:0 --state " + write("text", strings.Repeat("no database ", 100)), 1, "database"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, err bytes.Buffer
			code := run(context.Background(), append([]string{"rshub"}, strings.Fields(c.args)...), &out, &err)
			if all := out.String() + err.String(); code != c.code || !strings.Contains(all, c.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, c.code, c.want, all)
			}
		})
	}
}

// TestLives starts the program, takes its word for where it is, and stops it.
func TestLives(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	done := make(chan int)
	state := filepath.Join(dir, "state", "hub.db")
	go func() {
		done <- run(ctx, []string{"rshub", "--listen", "127.0.0.1:0", "--state", state, "--publisher-token-file", token,
			"--topics", "http://a/,http://b/x", "--log-level", "error"}, in, os.Stderr)
	}()
	lines := bufio.NewScanner(out)
	lines.Scan()
	base := lines.Text()
	for topic, want := range map[string]int{"http://a/1": 202, "http://b/1": 403} {
		waitFor(t, base, http.Header{"Link": {"<" + topic + ">; rel=self"}, "Authorization": {"Bearer secret"}}, want)
	}
	waitFor(t, base, http.Header{"Link": {"<http://a/>; rel=self"}}, 401)
	var other bytes.Buffer
	if code := run(ctx, []string{"rshub", "--listen", "127.0.0.1:0", "--state", state}, io.Discard, &other); code != 1 {
		t.Errorf("a second hub on the same state: exit code %d, %s", code, &other)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// waitFor pushes content until the hub is open, and insists on the answer.
func waitFor(t *testing.T, base string, header http.Header, want int) {
	t.Helper()
	for status := 503; ; {
		req, err := http.NewRequest(http.MethodPost, base, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if status = resp.StatusCode; status == 503 {
			<-time.After(5 * time.Millisecond)
			continue
		}
		if status != want {
			t.Fatalf("%v: answered %d, want %d", header, status, want)
		}
		return
	}
}

// hubProcess is rshub in a process of its own.
type hubProcess struct {
	cmd  *exec.Cmd
	base string
}

func startHub(t *testing.T, listen, state string) hubProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "--listen", listen, "--state", state, "--allow", "127.0.0.0/8", "--retry-base", "50ms", "--log-level", "error")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the hub did not start")
	}
	return hubProcess{cmd, lines.Text()}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestKill: whenever the hub is killed, what it has answered 2xx for reaches the subscriber, in order; repetitions are
// those of the last moments before the kill.
func TestKill(t *testing.T) {
	const topic, rounds = "http://source.example/topic", 4
	var mu sync.Mutex
	var got []int
	verified := make(chan bool, 10)
	sub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			verified <- true
			return
		}
		n, err := strconv.Atoi(string(body))
		if err != nil || r.Header.Get("X-Hub-Signature") == "" {
			t.Errorf("got %q, %v", body, r.Header)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, n)
	}))
	defer sub.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	post := func(base, kind, body, link string) (int, error) {
		req, err := http.NewRequest(http.MethodPost, base, strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Content-Type", kind)
		req.Header.Set("Link", link)
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	listen, state := freeAddress(t), filepath.Join(t.TempDir(), "hub.db")
	next := 0
	var acked []int
	for round := range rounds {
		h := startHub(t, listen, state)
		if round == 0 {
			form := url.Values{"hub.mode": {"subscribe"}, "hub.callback": {sub.URL}, "hub.topic": {topic}, "hub.secret": {"x"}}
			for status := 503; status != 202; {
				var err error
				if status, err = post(h.base, "application/x-www-form-urlencoded", form.Encode(), ""); err != nil || status != 202 && status != 503 {
					t.Fatal(status, err)
				}
			}
			<-verified
		}
		dead := time.AfterFunc(time.Duration(100+150*round)*time.Millisecond, func() { _ = h.cmd.Process.Kill() })
		for {
			status, err := post(h.base, "text/plain", strconv.Itoa(next), fmt.Sprintf("<%s>; rel=self", topic))
			if err != nil {
				break // killed
			}
			if status == 202 {
				acked = append(acked, next)
				next++
			}
		}
		next++ // the one under way may or may not be in
		dead.Stop()
		_ = h.cmd.Wait()
	}
	h := startHub(t, listen, state)
	if len(acked) < rounds {
		t.Fatalf("only %d notifications were taken", len(acked))
	}
	complete := func() bool {
		mu.Lock()
		defer mu.Unlock()
		have := map[int]bool{}
		for _, n := range got {
			have[n] = true
		}
		for _, n := range acked {
			if !have[n] {
				return false
			}
		}
		return true
	}
	for deadline := time.Now().Add(20 * time.Second); !complete(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not all of %d arrived", len(acked))
		}
	}
	mu.Lock()
	defer mu.Unlock()
	// Each run of the hub delivers upwards; a restart goes back a little, at most.
	back, most := 0, -1
	for i, n := range got {
		if i > 0 && n <= got[i-1] {
			back++
		}
		if n > most+2 { // one more for the notification that was under way
			t.Errorf("%d came after %d", n, most)
		}
		most = max(most, n)
	}
	if back > rounds {
		t.Errorf("the order was broken %d times in %d runs", back, rounds+1)
	}
	if err := h.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Wait(); err != nil {
		t.Errorf("an orderly end: %v", err)
	}
	t.Logf("%d taken, %d delivered", len(acked), len(got))
}
