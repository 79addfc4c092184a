package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/destination/fetch"
	"resyncd/destination/peer/source"
	"resyncd/destination/websub"
)

// TestHostilePosts lets whoever knows a callback's address, and a hub that knows its secret as well, send the daemon what
// they like, through its real listener. Each is answered as the table says, the mirror stays what the Source has, and a
// good notification still arrives afterwards.
func TestHostilePosts(t *testing.T) {
	t.Parallel()
	w := newHostileHub(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log buffer
	ended := serving(ctx, &log, []string{"resyncd", "serve", "--config", w.config}, []string{"HOME=" + w.dir})
	if err := poll("the hub was asked and the mirror is there", func() (bool, error) { return w.ready() && w.mirrored("a.txt"), nil }); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	wrong := 0
	for _, row := range hostilePosts() {
		if got := w.send(row); got != row.status {
			wrong++
			t.Errorf("%s: answered %d, want %d", row.name, got, row.status)
		}
	}
	w.put("late.txt")
	good := w.notification("late.txt")
	if got := w.send(hostilePost{body: good, sign: right}); got != http.StatusOK {
		t.Errorf("a good notification was answered %d", got)
	}
	if err := poll("the good notification was followed", func() (bool, error) { return w.mirrored("late.txt") && w.mirrored("a.txt"), nil }); err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
	w.nothingElse()
	stop()
	e := <-ended
	if e.code != exit.Done && e.code != exit.Interrupted {
		t.Errorf("the daemon ended with %d:\n%s", e.code, log.String())
	}
	modest(t, e.peak)
	t.Logf("%d hostile requests on the callback: %d not as expected, %d MiB taken", len(hostilePosts()), wrong, e.peak>>20)
}

// hostileHub is a Source and a hub that keeps what it is told: where to deliver, and the secret.
type hostileHub struct {
	t           *testing.T
	dir, config string
	src         *source.Source
	base        string
	client      *http.Client

	mu               sync.Mutex
	callback, secret string
	topic            string
	verified         bool
}

func newHostileHub(t *testing.T) *hostileHub {
	t.Helper()
	w := &hostileHub{t: t, dir: t.TempDir(), client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	t.Cleanup(w.client.CloseIdleConnections)
	hub := httptest.NewServer(http.HandlerFunc(w.answer))
	t.Cleanup(hub.Close)
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.src.Handler().ServeHTTP(rw, r) }))
	t.Cleanup(site.Close)
	client := fetch.New(fetch.Options{})
	t.Cleanup(client.Close)
	var err error
	if w.src, err = source.New(t.Context(), source.Options{Base: site.URL, Hub: hub.URL, Client: client}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.src.Close() })
	w.base = site.URL
	w.put("a.txt")
	w.config = filepath.Join(w.dir, "resyncd.yaml")
	text := fmt.Sprintf("data_dir: %s/data\nmirror: %s/mirror\nnetwork: { allow: [127.0.0.0/8] }\nconsole: { listen: \"\" }\n"+
		"callback: { listen: 127.0.0.1:0, base_url: \"http://127.0.0.1:0/cb\", max_body: 64KiB }\n"+
		"defaults: { durability: none, schedule: \"@daily\", reorder_grace: 0s }\nsources: [{ name: lib, url: %q }]\n", w.dir, w.dir, site.URL+"/")
	if err := os.WriteFile(w.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// answer takes every request and verifies subscriptions to the channel of changes.
func (w *hostileHub) answer(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	rw.WriteHeader(http.StatusAccepted)
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("hub.mode") != "subscribe" || strings.Contains(form.Get("hub.topic"), "framework") {
		return
	}
	go func() {
		q := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {form.Get("hub.topic")}, "hub.challenge": {"c"}, "hub.lease_seconds": {"86400"}}
		resp, err := w.client.Get(form.Get("hub.callback") + "?" + q.Encode())
		if err != nil {
			return
		}
		_ = resp.Body.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.callback, w.secret, w.topic, w.verified = form.Get("hub.callback"), form.Get("hub.secret"), form.Get("hub.topic"), resp.StatusCode == http.StatusOK
	}()
}

func (w *hostileHub) ready() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.verified
}

func (w *hostileHub) put(name string) {
	w.t.Helper()
	if err := w.src.Put(name, []byte("this is "+name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *hostileHub) path(name string) string {
	host := strings.ReplaceAll(strings.TrimPrefix(w.base, "http://"), ":", "_")
	return filepath.Join(w.dir, "mirror", "lib", host, name)
}

func (w *hostileHub) mirrored(name string) bool {
	b, err := os.ReadFile(w.path(name))
	return err == nil && string(b) == "this is "+name
}

// nothingElse insists that the mirror has the Source's two resources and no third.
func (w *hostileHub) nothingElse() {
	w.t.Helper()
	files, err := os.ReadDir(filepath.Dir(w.path("x")))
	if err != nil || len(files) != 2 {
		w.t.Errorf("the mirror holds %v, %v", files, err)
	}
}

// notification tells that a resource was created, in the past of the Source.
func (w *hostileHub) notification(name string) string {
	return urlset(`capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T00:00:10Z"`,
		`<url><loc>`+w.base+`/`+name+`</loc><rs:md change="created" datetime="2026-01-01T00:00:05Z"/></url>`)
}

// send sends one request as the row has it and returns the status, 0 where there was none.
func (w *hostileHub) send(row hostilePost) int {
	w.t.Helper()
	w.mu.Lock()
	callback, secret, topic := w.callback, w.secret, w.topic
	w.mu.Unlock()
	text := strings.NewReplacer("{base}", w.base, "{topic}", url.QueryEscape(topic))
	method, body := row.method, text.Replace(row.body)
	if method == "" {
		method = http.MethodPost
	}
	where := callback
	if row.token != "" {
		where = callback[:strings.LastIndexByte(callback, '/')+1] + row.token
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, where+text.Replace(row.query), strings.NewReader(body))
	if err != nil {
		w.t.Fatalf("%s: %v", row.name, err)
	}
	for i := 0; i+1 < len(row.header); i += 2 {
		req.Header.Add(row.header[i], row.header[i+1])
	}
	if row.sign != nil {
		for _, s := range row.sign(secret, body) {
			req.Header.Add("X-Hub-Signature", s)
		}
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func right(secret, body string) []string {
	return []string{websub.Sign(websub.SHA256, secret, []byte(body))}
}
