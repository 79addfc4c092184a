package e2e_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination/peer/source"
	"resyncd/store/sqlite"
)

// planted are secrets by what they are: each must be used, and none may ever be seen (P10).
var planted = map[string]string{
	"bearer token": "zq-bearer-71", "password of a Source": "zq-basic-72", "value of a header": "zq-header-73", "cookie": "zq-cookie-74",
	"cookie that a Source sets": "zq-setcookie-75", "query of a Source": "zq-source-76", "query of a list": "zq-list-77", "query of a hub": "zq-hub-78",
	"query of a topic": "zq-topic-79", "userinfo of a redirect": "zq-userinfo-80", "query of a redirect": "zq-redirect-81",
	"query of a list that a document names": "zq-signed-84",
	"query of a resource":                   "zq-named-85",
	"console password":                      "zq-consolepw-82", "console token": "zq-consoletok-83", // and the key of a certificate, callback tokens, secrets of hubs
}

// TestNoSecretGetsOut plants seventeen secrets, has the daemon use all of them, well and in vain, with hubs and Sources that
// repeat whatever they are told, and looks for them in everything that leaves the program: logs at debug in both formats,
// all commands, and each page of the console.
func TestNoSecretGetsOut(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			w := newPlantation(t)
			w.live(format)
			w.search()
		})
	}
}

// plantation is a place full of secrets: Sources, hubs and a daemon that follows them.
type plantation struct {
	t      *testing.T
	dir    string
	config string
	site   *httptest.Server
	broken *httptest.Server
	hub    *httptest.Server
	client *http.Client

	mu      sync.Mutex
	secrets map[string]string // by what they are
	used    map[string]bool   // what reached where it belongs
	seen    map[string]string // what left the program, by where
}

func newPlantation(t *testing.T) *plantation {
	t.Helper()
	w := &plantation{
		t: t, dir: t.TempDir(), secrets: map[string]string{}, used: map[string]bool{}, seen: map[string]string{},
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, // the callback's is self-signed
	}
	for what, secret := range planted {
		w.secrets[what] = secret
	}
	w.hub = w.server(w.answerAsHub)
	w.broken = w.server(w.answerInVain)
	var src *source.Source
	w.site = w.server(func(rw http.ResponseWriter, r *http.Request) { w.answerAsSource(rw, r, src.Handler()) })
	var err error
	if src, err = source.New(t.Context(), source.Options{Base: w.site.URL}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = src.Close() })
	for _, name := range []string{"a.txt", "moved.txt", "lost.txt"} {
		if err := src.Put(name, []byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	w.write()
	return w
}

func (w *plantation) server(h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	return s
}

// use notes that a secret reached where it belongs.
func (w *plantation) use(what string, when bool) {
	if when {
		w.mu.Lock()
		w.used[what] = true
		w.mu.Unlock()
	}
}

// answerAsSource demands credentials, sets a cookie, and moves one resource to a signed address and one to a userinfo.
func (w *plantation) answerAsSource(rw http.ResponseWriter, r *http.Request, inner http.Handler) {
	w.use("bearer token", r.Header.Get("Authorization") == "Bearer "+planted["bearer token"])
	w.use("value of a header", r.Header.Get("X-Key") == planted["value of a header"])
	w.use("cookie", strings.Contains(r.Header.Get("Cookie"), planted["cookie"]))
	w.use("query of a Source", r.URL.Query().Get("key") == planted["query of a Source"])
	w.use("query of a list", r.URL.Query().Get("key") == planted["query of a list"])
	w.use("query of a redirect", r.URL.Query().Get("sig") == planted["query of a redirect"])
	rw.Header().Set("Set-Cookie", "session="+planted["cookie that a Source sets"])
	w.use("cookie that a Source sets", true)
	switch {
	case r.URL.Path == "/moved.txt":
		http.Redirect(rw, r, "/gone?sig="+planted["query of a redirect"], http.StatusFound)
	case r.URL.Path == "/lost.txt":
		w.use("userinfo of a redirect", true)
		http.Redirect(rw, r, "http://me:"+planted["userinfo of a redirect"]+"@"+r.Host+"/gone", http.StatusFound)
	case strings.HasPrefix(r.URL.Path, "/signed/"):
		w.answerSigned(rw, r)
	case r.URL.Path == "/gone":
		http.Error(rw, "no", http.StatusInternalServerError)
	default:
		inner.ServeHTTP(rw, r)
	}
}

// answerSigned gives documents that name their lists by signed addresses, and give much to complain of.
func (w *plantation) answerSigned(rw http.ResponseWriter, r *http.Request) {
	const head = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	secret, base := planted["query of a list that a document names"], "http://"+r.Host+"/signed/"
	if r.URL.Path == "/signed/capabilities.xml" {
		fmt.Fprintf(rw, `%s<rs:md capability="capabilitylist"/><url><loc>%[2]slist.xml?sig=%[3]s</loc><rs:md capability="resourcelist"/></url>`+
			`<url><loc>%[2]schanges.xml?sig=%[3]s</loc><rs:md capability="changelist"/></url></urlset>`, head, base, secret)
		return
	}
	w.use("query of a resource", r.URL.Query().Get("sig") == planted["query of a resource"])
	w.use("query of a list that a document names", r.URL.Path == "/signed/changes.xml" && r.URL.Query().Get("sig") == secret)
	if r.URL.Path == "/signed/list.xml" {
		fmt.Fprintf(rw, `%s<rs:md capability="resourcelist" at="2020-01-01T00:00:00Z"/><url><loc>%sbad?sig=%s</loc></url></urlset>`, head, base,
			planted["query of a resource"])
		return
	}
	fmt.Fprintf(rw, `%s<rs:md capability="changelist"/><url><loc>%sx</loc><rs:md change="modified" datetime="2020-01-01T00:00:00Z"/></url></urlset>`, head, base)
}

// answerInVain repeats in its errors all that it is told.
func (w *plantation) answerInVain(rw http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	w.use("password of a Source", password == planted["password of a Source"])
	rw.Header().Set("X-Said", r.Header.Get("Authorization"))
	http.Error(rw, fmt.Sprint(user, password, r.Header, r.URL), http.StatusForbidden)
}

// answerAsHub grants what it is asked at /good and delivers there, and refuses elsewhere, repeating callback and secret.
func (w *plantation) answerAsHub(rw http.ResponseWriter, r *http.Request) {
	w.use("query of a hub", r.URL.Query().Get("key") == planted["query of a hub"])
	if err := r.ParseForm(); err != nil {
		w.t.Error(err)
	}
	form := r.PostForm
	w.use("query of a topic", strings.Contains(form.Get("hub.topic"), planted["query of a topic"]))
	if r.URL.Path != "/good" {
		http.Error(rw, "no: "+form.Encode()+" "+form.Get("hub.callback")+" "+form.Get("hub.secret"), http.StatusBadRequest)
		return
	}
	rw.WriteHeader(http.StatusAccepted)
	callback, topic := form.Get("hub.callback"), form.Get("hub.topic")
	mode := form.Get("hub.mode")
	go func() {
		q := url.Values{"hub.mode": {mode}, "hub.topic": {topic}, "hub.challenge": {"c"}, "hub.lease_seconds": {"30"}}
		w.say(http.MethodGet, callback+"?"+q.Encode())
		w.say(http.MethodPost, callback) // without a signature: refused
		denied := url.Values{"hub.mode": {"denied"}, "hub.topic": {topic + "x"}, "hub.reason": {callback}}
		w.say(http.MethodGet, callback+"?"+denied.Encode())
	}()
}

func (w *plantation) say(method, where string) {
	req, err := http.NewRequestWithContext(context.Background(), method, where, strings.NewReader("<x/>"))
	if err != nil {
		w.t.Error(err)
		return
	}
	if resp, err := w.client.Do(req); err == nil { // else the daemon has ended meanwhile
		_ = resp.Body.Close()
	}
}

// write lays down configuration, secret files and a certificate.
func (w *plantation) write() {
	t := w.t
	put := func(name string, data []byte) string {
		path := filepath.Join(w.dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	w.secrets["key of a certificate"] = base64.StdEncoding.EncodeToString(private)[:40]
	w.use("key of a certificate", true)
	certFile := put("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	keyFile := put("key.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
	w.config = put("resyncd.yaml", fmt.Appendf(nil, `
data_dir: %[1]s/data
callback: { listen: "127.0.0.1:0", tls_cert_file: %[2]s, tls_key_file: %[3]s }
console: { listen: "127.0.0.1:0", user: op, password: %[4]s, token_file: %[5]s }
network: { allow: [127.0.0.0/8], retry_for: 0s }
defaults: { schedule: "@daily" }
sources:
  - name: good
    url: %[6]s/?key=%[7]s
    hub: %[8]s/good?key=%[9]s
    topic: %[6]s/topic?key=%[10]s
    auth: { bearer_file: %[11]s, header: { X-Key: %[12]s, Cookie: session=%[13]s } }
  - name: list
    url: %[6]s/.resourcesync/resourcelist.xml?key=%[14]s
    hub: %[8]s/bad?key=%[9]s
    topic: %[6]s/topic?key=%[10]s
    kind: resourcesync
  - name: signed
    url: %[6]s/signed/capabilities.xml
    push: off
  - name: bad
    url: %[15]s/?key=%[7]s
    auth: { basic_user: me, basic_password: %[16]s }
`, w.dir, certFile, keyFile, planted["console password"], put("token", []byte(planted["console token"])), w.site.URL, planted["query of a Source"],
		w.hub.URL, planted["query of a hub"], planted["query of a topic"], put("bearer", []byte(planted["bearer token"])), planted["value of a header"],
		planted["cookie"], planted["query of a list"], w.broken.URL, planted["password of a Source"]))
}

// live runs the daemon until all secrets have been used, asks it everything, and ends it.
func (w *plantation) live(format string) {
	t := w.t
	cmd := exec.Command("resyncd", "serve", "--config", w.config, "--log-level", "debug", "--log-format", format)
	var out, log buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = &out, &log, w.dir, childEnv()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended: %v", err)
		}
		w.seen["output of the daemon"], w.seen["log of the daemon"] = out.String(), log.String()
		if strings.Count(strings.ToUpper(log.String()), "DEBUG") < 3 {
			t.Error("nothing was logged at debug")
		}
	}()
	where := regexp.MustCompile(`console  (http://\S+)/`)
	err := poll("everything was used", func() (bool, error) {
		m := where.FindStringSubmatch(out.String())
		if m == nil {
			return false, nil
		}
		page, err := w.get(m[1] + "/api/status")
		return err == nil && len(w.unused()) == 0 && strings.Contains(page, `"active"`) && strings.Contains(page, "answered 400"), nil
	})
	if err != nil {
		t.Errorf("%v; not used: %v\n%s", err, w.unused(), log.String())
		return
	}
	w.tokens()
	w.crawl(where.FindStringSubmatch(out.String())[1])
	for _, args := range []string{
		"status", "status --json", "ls good", "ls --json good", "ls --owed --json good", "ls list", "subscription list", "subscription list --json",
		"subscription renew good", "config print", "config check", "sync --json", "sync bad", "history good " + w.site.URL + "/a.txt", "source pause list",
		"sync list", "approve list", "restore good " + w.site.URL + "/none", "audit list", "status --log-level debug nobody",
	} {
		w.command(strings.Fields(args)...)
	}
}

// tokens takes up what only the state knows.
func (w *plantation) tokens() {
	st, err := sqlite.Open(w.t.Context(), filepath.Join(w.dir, "data", mirror.StateFile), sqlite.Options{ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	subs, err := st.Subscriptions(w.t.Context(), 0, true)
	if err != nil || len(subs) < 2 {
		w.t.Fatal(subs, err)
	}
	for i := range subs {
		w.secrets[fmt.Sprint("callback token ", i)], w.secrets[fmt.Sprint("secret of a hub ", i)] = subs[i].Token, subs[i].Secret
	}
}

// command runs one; whatever becomes of it, it says nothing that it must not.
func (w *plantation) command(args ...string) {
	at := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
	verbs := 1
	if slices.Contains([]string{"config", "subscription", "source"}, args[0]) {
		verbs = 2
	}
	if at < 0 {
		at = verbs
	}
	full := slices.Concat(args[:verbs], []string{"--config", w.config}, args[verbs:])
	cmd := exec.CommandContext(w.t.Context(), "resyncd", full...)
	cmd.Dir, cmd.Env = w.dir, childEnv()
	out, _ := cmd.CombinedOutput() // many fail, as they should
	w.seen["resyncd "+strings.Join(args, " ")] = string(out)
	if len(out) == 0 && args[0] != "ls" {
		w.t.Errorf("resyncd %v says nothing", args)
	}
}

func (w *plantation) get(where string) (string, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, http.NoBody)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+planted["console token"])
	resp, err := w.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	w.use("console token", resp.StatusCode == http.StatusOK)
	var head bytes.Buffer
	_ = resp.Header.Write(&head) // a buffer takes all
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	return head.String() + string(body), err
}

// crawl looks at each page that can be come to, and at what machines read.
func (w *plantation) crawl(base string) {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, base+"/", http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	req.SetBasicAuth("op", planted["console password"])
	if resp, err := w.client.Do(req); err != nil || resp.StatusCode != http.StatusOK {
		w.t.Errorf("the console does not let its user in: %v", err)
	} else {
		_ = resp.Body.Close()
		w.use("console password", true)
	}
	link := regexp.MustCompile(`(?:href|action|src)="(/[^"#]*)`)
	queue, asked := []string{"/", "/metrics", "/api/status", "/healthz", "/readyz", "/nowhere"}, map[string]bool{}
	for len(queue) > 0 && len(asked) < 150 {
		next := strings.ReplaceAll(queue[0], "&amp;", "&")
		if queue = queue[1:]; asked[next] || strings.HasPrefix(next, "/api/events") {
			continue
		}
		asked[next] = true
		page, err := w.get(base + next)
		if err != nil {
			w.t.Errorf("%s: %v", next, err)
		}
		w.seen["page "+next] = page
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			queue = append(queue, m[1])
		}
	}
	for _, must := range []string{"/", "/source/good", "/source/bad"} {
		if !asked[must] {
			w.t.Errorf("%s was not come to: %d pages", must, len(asked))
		}
	}
}

func (w *plantation) unused() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for what := range w.secrets {
		if !w.used[what] && what != "console password" {
			out = append(out, what)
		}
	}
	return out
}

// search looks for each secret, in each form that it may have, in all that was seen.
func (w *plantation) search() {
	if len(w.seen) < 25 || len(w.secrets) < 18 {
		w.t.Fatalf("only %d things were seen, and %d secrets planted", len(w.seen), len(w.secrets))
	}
	for what, secret := range w.secrets {
		forms := []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret))}
		if what == "password of a Source" {
			forms = append(forms, base64.StdEncoding.EncodeToString([]byte("me:"+secret)))
		}
		for where, text := range w.seen {
			if what == "query of a resource" && where != "log of the daemon" { // its URI is its name, wherever it is listed
				continue
			}
			for _, form := range forms {
				if i := strings.Index(text, form); form != "" && i >= 0 {
					w.t.Errorf("the %s is in %s: …%s…", what, where, text[max(0, i-200):min(len(text), i+len(form)+60)])
					break
				}
			}
		}
	}
}
