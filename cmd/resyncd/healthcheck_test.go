package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHealthcheck asks a console that is ready, one that is not, and none.
func TestHealthcheck(t *testing.T) {
	ready := true
	console := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && !ready || r.URL.Path != "/readyz" && r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "not ready\n")
		}
	}))
	defer console.Close()
	at := strings.TrimPrefix(console.URL, "http://")
	_, port, _ := strings.Cut(at, ":")
	config := t.TempDir() + "/resyncd.yaml"
	ask := func(listen string, args ...string) (int, string) {
		var out, messages buffer
		code := run(t.Context(), append([]string{"resyncd", "healthcheck"}, args...), []string{"RESYNCD_CONFIG=", "RESYNCD_CONSOLE_LISTEN=" + listen}, &out, &messages)
		return code, out.String() + messages.String()
	}
	for _, c := range []struct {
		listen string
		ready  bool
		args   []string
		code   int
		want   string
	}{
		{at, true, nil, 0, "ready\n"},
		{at, true, []string{"--alive"}, 0, "alive\n"},
		{at, false, nil, 1, "resyncd: the daemon at " + at + " is not ready: "},
		{at, false, []string{"--alive"}, 0, "alive\n"},
		{"localhost:" + port, true, nil, 0, "ready\n"},
		{"127.0.0.1:1", true, nil, 1, "; look at its log\n"},
		{"off", true, nil, 2, "console.listen is switched off"},
		{at, true, []string{"more"}, 2, "usage: resyncd healthcheck"},
		{at, true, []string{"--config", config}, 2, "no such file"},
	} {
		ready = c.ready
		if code, text := ask(c.listen, c.args...); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s %v: %d, %q; want %d, %q", c.listen, c.args, code, text, c.code, c.want)
		}
	}
}

func TestDialable(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		":8091": "127.0.0.1:8091", "0.0.0.0:8091": "127.0.0.1:8091", "[::]:8091": "[::1]:8091", "[::ffff:0.0.0.0]:1": "127.0.0.1:1",
		"127.0.0.2:8091": "127.0.0.2:8091", "[fd00::1]:8091": "[fd00::1]:8091", "localhost:8091": "localhost:8091",
	} {
		if got := dialable(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
