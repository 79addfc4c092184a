package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRedirects(t *testing.T) {
	t.Parallel()
	var base string
	c, base := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Referer") != "" {
			t.Error("a Referer was sent")
		}
		to := r.URL.Query().Get("to")
		var n int
		switch _, _ = fmt.Sscanf(r.URL.Path, "/chain/%d", &n); {
		case n > 0:
			http.Redirect(w, r, fmt.Sprintf("/chain/%d", n-1), http.StatusMovedPermanently)
		case r.URL.Path == "/loop":
			http.Redirect(w, r, "/loop2", http.StatusFound)
		case r.URL.Path == "/loop2":
			http.Redirect(w, r, base+"/loop", http.StatusFound)
		case to != "":
			w.Header()["Location"] = []string{to}
			w.WriteHeader(http.StatusTemporaryRedirect)
			fmt.Fprint(w, "moved")
		default:
			fmt.Fprint(w, r.RequestURI)
		}
	})
	type result struct {
		Body          string
		Requests, Hop int
		Kind          Kind
	}
	notSecret := func(uri string) bool { return !strings.HasPrefix(uri, base+"/secret") }
	for in, want := range map[string]result{
		"/chain/5":               {"/chain/0", 6, 0, 0},
		"/chain/6":               {"", 6, 6, Refused},
		"/loop":                  {"", 2, 2, Refused},
		"/x/y?to=../a%2Fb%20c":   {"/a/b%20c", 2, 0, 0},
		"/?to=/p%25/q%7C%23frag": {"/p%25/q%7C", 2, 0, 0},
		"/?to=ftp://h/":          {"", 1, 1, Refused},
		"/?to=file:///etc":       {"", 1, 1, Refused},
		"/?to=//u:p@h/":          {"", 1, 1, Refused},
		"/?to=//h:x/":            {"", 1, 1, Broken},
		"/?to=/secret/a":         {"", 1, 1, Refused},
		"/?to=http://10.0.0.1/":  {"", 1, 1, Refused},
	} {
		resp, err := c.Get(t.Context(), Request{URL: base + in, InScope: notSecret})
		var got result
		if err != nil {
			e := wantKind(t, err, want.Kind)
			got = result{Requests: e.Requests, Hop: e.Hop, Kind: e.Kind}
		} else {
			got = result{Requests: resp.Requests}
			if u, _ := url.Parse(resp.URL); u.RequestURI() != want.Body {
				t.Errorf("%s: final URL %s", in, resp.URL)
			}
			got.Body = readAll(t, resp)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", in, d)
		}
	}
}

func TestNoDowngradeAndTLS(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL, http.StatusFound)
	}))
	defer secure.Close()
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)

	stranger := New(Options{Allow: loopback()})
	defer stranger.Close()
	_, err := stranger.Get(t.Context(), Request{URL: secure.URL}) // F61
	if e := wantKind(t, err, TLS); e.Requests != 1 {
		t.Errorf("a bad certificate was retried: %d requests", e.Requests)
	}
	_, err = stranger.Get(t.Context(), Request{URL: strings.Replace(plain.URL, "http:", "https:", 1)})
	wantKind(t, err, TLS)

	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	c := newClient(Options{Allow: loopback()}, environment{tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	defer c.Close()
	_, err = c.Get(t.Context(), Request{URL: secure.URL})
	if e := wantKind(t, err, Refused); !strings.Contains(e.Error(), "https") {
		t.Errorf("unclear: %v", e)
	}
}

func TestCredentialsStayAtTheirOrigin(t *testing.T) {
	t.Parallel()
	type seen struct{ Authorization, Key, Encoding string }
	var got []seen
	look := func(r *http.Request) {
		got = append(got, seen{r.Header.Get("Authorization"), r.Header.Get("X-Key"), r.Header.Get("Accept-Encoding")})
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		look(r)
		http.Redirect(w, r, r.URL.Query().Get("back"), http.StatusFound)
	}))
	defer other.Close()
	c, base := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		look(r)
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL+"/?back="+url.QueryEscape("http://"+r.Host+"/end"), http.StatusFound)
		case "/echo":
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "you sent %v", r.Header)
		}
	})
	p := &Policy{AuthOrigin: base + "/any/path", Auth: &Auth{
		Bearer: "sesame-open", Headers: map[string]string{"X-Key": "k-e-y-1", "Accept-Encoding": "br", "Range": "bytes=0-1"},
	}}
	resp, err := c.Get(t.Context(), Request{URL: base + "/away", Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	own := seen{"Bearer sesame-open", "k-e-y-1", "identity"}
	if d := cmp.Diff([]seen{own, {Encoding: "identity"}, own}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	_, err = c.Get(t.Context(), Request{URL: base + "/echo?token=letmein", Policy: p})
	e := wantKind(t, err, Denied)
	for _, secret := range []string{"sesame", "k-e-y", "letmein"} {
		if strings.Contains(e.Error(), secret) {
			t.Errorf("%q in %q", secret, e.Error())
		}
	}
	got = nil
	basic := &Policy{AuthOrigin: base, Auth: &Auth{BasicUser: "u", BasicPassword: "p"}}
	for _, policy := range []*Policy{basic, {Auth: basic.Auth}, {AuthOrigin: base}} {
		resp, err := c.Get(t.Context(), Request{URL: base + "/", Policy: policy})
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
	}
	if got[0].Authorization != "Basic dTpw" || got[1].Authorization != "" || got[2].Authorization != "" {
		t.Errorf("%v", got)
	}
}

func TestCredentialsDoNotPrint(t *testing.T) {
	t.Parallel()
	a := Auth{Bearer: "sesame", BasicPassword: "sesame", Headers: map[string]string{"X": "sesame"}}
	p := Policy{Auth: &a}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "auth", a, "pointer", &a, "policy", p)
	asJSON, err := json.Marshal(map[string]any{"a": a, "p": p})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		fmt.Sprint(a), fmt.Sprintf("%v %+v %#v %s %q %x", a, a, a, a, a, a), fmt.Sprintf("%v %+v %#v", &a, &a, &a),
		fmt.Sprintf("%+v", []any{a, &a}), log.String(), string(asJSON),
	} {
		if strings.Contains(s, "sesame") || strings.Contains(s, "736573") {
			t.Errorf("printed: %s", s)
		}
	}
}

func TestRedactURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://u:pw@h.example:8443/a%2Fb c?token=x#f": "https://h.example:8443/a%2Fb%20c?…",
		"http://h": "http://h", "nonsense token": "(a URL that cannot be read)", "http://h/\x1b[m\n": "http://h/%1B[m%0A",
		"http://h\x1b/": "(a URL that cannot be read)",
	} {
		if got := RedactURL(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
