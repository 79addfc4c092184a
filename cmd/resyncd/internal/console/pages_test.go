package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"
)

// everyPage are the addresses of one page of each kind, and of each state a Source can be in.
func everyPage(f *fake) []string {
	paths := []string{"/", "/?q=owed", "/?q=" + url.QueryEscape(nasty), "/nothing"}
	for _, name := range f.names {
		paths = append(paths, sourcePath(name))
	}
	for _, z := range zooms {
		paths = append(paths, "/source/archive.example?set=11&zoom="+z.Name, "/source/archive.example?set=10&zoom="+z.Name+"&until="+url.QueryEscape(f.now.Add(-time.Hour).UTC().Format(time.RFC3339)))
	}
	return append(paths, "/source/maps/find", "/source/maps/find?q=nothing", "/source/maps/find?q="+url.QueryEscape(nasty),
		"/source/maps/resource?uri="+url.QueryEscape(nasty), "/source/nobody", "/source/"+url.PathEscape(nasty))
}

// TestStructure: whatever strangers write, a page is the page that we wrote: nothing runs, every control has a name, every
// reference has a target.
func TestStructure(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", nasty} {
		f := newFake(time.Now(), text)
		if text != "" {
			f.names[1] = `<b id="q">&'"../x`
		}
		h := New(Options{Data: f, Version: nasty})
		for _, path := range everyPage(f) {
			w := ask(h, http.MethodGet, path)
			if want := http.StatusOK; w.Code != want && !strings.Contains(path, "no") && path != "/source/"+url.PathEscape(nasty) {
				t.Errorf("%s: %d", path, w.Code)
			}
			page := parse(t, w.Body.String())
			for n := range page.Descendants() {
				shown := attr(n, "title") + attr(n, "aria-label")
				if n.Type == html.TextNode {
					shown = n.Data
				}
				if strings.ContainsAny(shown, "\u202e\u2066\x1b") {
					t.Errorf("%s: text can be turned round: %q", path, shown)
				}
			}
			for _, wrong := range inspect(page) {
				t.Errorf("%s: %s", path, wrong)
			}
		}
	}
}

// elements are all that our templates write.
var elements = regexp.MustCompile(`^(html|head|meta|title|link|script|noscript|body|a|svg|symbol|circle|path|header|nav|span|p|time|main|footer|section|h1|h2|h3|` +
	`use|rect|ul|li|b|bdi|form|label|input|button|dl|div|dt|dd|table|caption|thead|tbody|tr|th|td|small|br|i|q|code|details|summary|article|figure|figcaption|` +
	`defs|pattern|g|line|text|tspan|progress)$`)

// inspect returns what is wrong with a page.
func inspect(page *html.Node) []string {
	var wrong []string
	ids, labels, refs := map[string]int{}, map[string]bool{}, []string{}
	mains := 0
	for n := range page.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		// golang.org/x/net/html reads <title> in SVG as it should; it is the tooltip.
		if !elements.MatchString(n.Data) {
			wrong = append(wrong, "an element <"+n.Data+">")
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc" || a.Key == "target" || a.Key == "autofocus" {
				wrong = append(wrong, "an attribute "+a.Key+" on <"+n.Data+">")
			}
			if a.Key == "href" || a.Key == "src" || a.Key == "action" {
				if ok := strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//") || strings.HasPrefix(a.Val, "#") || strings.HasPrefix(a.Val, "?") ||
					(strings.HasPrefix(a.Val, "https://") || strings.HasPrefix(a.Val, "http://")) && attr(n, "rel") == "noreferrer noopener"; !ok {
					wrong = append(wrong, fmt.Sprintf("<%s %s=%q>", n.Data, a.Key, a.Val))
				}
			}
			switch a.Key {
			case "id":
				ids[a.Val]++
			case "aria-labelledby", "for":
				refs = append(refs, a.Val)
			}
		}
		if href := attr(n, "href"); len(href) > 1 && href[0] == '#' {
			refs = append(refs, href[1:])
		}
		switch n.Data {
		case "script":
			if attr(n, "src") == "" || n.FirstChild != nil {
				wrong = append(wrong, "a script of its own")
			}
		case "label":
			labels[attr(n, "for")] = true
		case "th":
			if attr(n, "scope") == "" {
				wrong = append(wrong, "a header without scope: "+textOf(n))
			}
			if textOf(n) == "" {
				wrong = append(wrong, "an empty header")
			}
		case "a", "button", "summary", "h1", "h2", "h3":
			if textOf(n) == "" && n.FirstChild != nil && n.FirstChild.Data != "rect" {
				wrong = append(wrong, "a <"+n.Data+"> without words")
			}
		case "svg":
			if attr(n, "aria-hidden") == "" && (attr(n, "role") != "img" || attr(n, "aria-label") == "") && n.Parent.Data != "g" && n.Parent.Data != "a" {
				wrong = append(wrong, "a picture without words")
			}
		case "nav", "figure":
			if n.Data == "nav" && attr(n, "aria-label") == "" {
				wrong = append(wrong, "a landmark without a name")
			}
		case "main":
			mains++
		}
	}
	for n := range page.Descendants() {
		if n.Data == "input" && attr(n, "type") != "hidden" && !labels[attr(n, "id")] {
			wrong = append(wrong, "an input without a label")
		}
	}
	for id, times := range ids {
		if times > 1 || strings.ContainsAny(id, " \t\n") || id == "" {
			wrong = append(wrong, fmt.Sprintf("id %q, %d times", id, times))
		}
	}
	for _, ref := range refs {
		if ids[ref] == 0 {
			wrong = append(wrong, "nothing has the id "+ref)
		}
	}
	if mains != 1 {
		wrong = append(wrong, fmt.Sprintf("%d main parts", mains))
	}
	return wrong
}

// TestInspect: the check above can fail.
func TestInspect(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		`<img src="/x">`, `<a href="javascript:x">x</a>`, `<a href="//evil.example">x</a>`, `<p onclick="x">x</p>`, `<p style="x">x</p>`, `<script>x</script>`,
		`<input id="x">`, `<table><tr><th>x</th></tr></table>`, `<p id="x">a</p><p id="x">b</p>`, `<a href="#x">x</a>`, `<svg></svg>`, `<nav>x</nav>`, `<main></main>`,
	} {
		if wrong := inspect(parse(t, "<main></main>"+bad)); len(wrong) == 0 {
			t.Errorf("%s passes", bad)
		}
	}
	if wrong := inspect(parse(t, "<main><p>x</p></main>")); len(wrong) != 0 {
		t.Error(wrong)
	}
}

// TestPagesSay: what an operator has to see is there, in words.
func TestPagesSay(t *testing.T) {
	t.Parallel()
	h := New(Options{Data: newFake(time.Now(), ""), Version: "9.8.7"})
	for path, words := range map[string][]string{
		"/": {
			"6 Sources", "1 failing", "1 in step", "owed 1,204", "held 5,112", "refused 31", "open gaps 1", "lost gaps 2", "The hub has not answered for 3 h",
			"lapsed ended 2 h ago", "active ends in 7 d 2 h", "push 12 s ago", "pull 9 min ago", "next in 6 min", "no push", "3.2 GiB", "1 open", "resyncd 9.8.7",
		},
		"/?q=OWED": {"6 Sources", "1 of 6 shown", "thesis-store"},
		"/?q=zzz":  {"No Source matches"},
		"/source/archive.example": {
			"failing", "Coverage", "lagging", "unprovable", "by change-list", "the list lags behind a notification", "3 bad signature", "1 malformed",
			"active → to lapsed the lease ended", "503 Service Unavailable", "Found by /.well-known/resourcesync", "Pause…", "Pull now", "resyncd 9.8.7", "Renew",
		},
		"/source/thesis-store":  {"Owed: 1,204", "the list says 9c00…", "The first 20 of 1,204 are shown", "resyncd ls --owed thesis-store"},
		"/source/maps":          {"Held: 5,112 files wait for your word", "Deletes 5,112 files", "Keeps all 5,112 files", "Approve: delete them", "Reject: keep them"},
		"/source/museum":        {"paused", "Resume"},
		"/source/preprints":     {"Refused: 31", "outside of the scope", "None: this Source names no hub"},
		"/source/maps/find?q=a": {"9 found; there may be more", "A map of the harbour", "1.0 MiB"},
		"/source/maps/resource?uri=https://a.example/1": {"Restore…", "Save the mirrored bytes", "0123456789abcdef", "wanted", "1,048,576 bytes",
			"Related resources", "collection urn:x-theses:1902", "describedby https://a.example/1.dc application/xml http://purl.org/dc/elements/1.1/ 2026-01-02T03:00:00Z",
			"duplicate gsiftp://old.example/1.pdf", "patch https://a.example/1.patch application/json-patch+json", "via http://origin.example/1.pdf"},
		"/nothing": {"There is nothing here"},
	} {
		page := textOf(parse(t, ask(h, http.MethodGet, path).Body.String()))
		for _, word := range words {
			if !strings.Contains(page, word) {
				t.Errorf("%s does not say %q", path, word)
			}
		}
	}
}

// TestFilterAndOrder: the worst first, a state in full means that state, other words are looked for everywhere.
func TestFilterAndOrder(t *testing.T) {
	t.Parallel()
	h := New(Options{Data: newFake(time.Now(), "")})
	for query, want := range map[string]string{
		"": "archive.example maps thesis-store museum newspapers preprints", "in+step": "preprints", "In+Step": "preprints", "503": "archive.example",
		"resource+list": "maps thesis-store", "maps": "maps", "list+5,112": "maps", "https://m": "maps museum", "lapsed": "archive.example", "%zz": "archive.example maps thesis-store museum newspapers preprints",
	} {
		var got []string
		for n := range parse(t, ask(h, http.MethodGet, "/?q="+query).Body.String()).Descendants() {
			if id := attr(n, "id"); n.Data == "tr" && strings.HasPrefix(id, "s-") {
				got = append(got, strings.TrimPrefix(id, "s-"))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q", query, got)
		}
	}
}

// TestFailures: what went wrong is said in the words of Data, as text; the page asks again by itself.
func TestFailures(t *testing.T) {
	t.Parallel()
	f := newFake(time.Now(), "")
	f.fails = errors.New("the state is being opened " + nasty)
	h := New(Options{Data: f})
	for _, path := range []string{"/", "/source/maps", "/source/maps/find?q=a", "/source/maps/bytes?uri=a", "/source/maps/resource?uri=a"} {
		w := ask(h, http.MethodGet, path)
		page := parse(t, w.Body.String())
		if path != "/source/maps/resource?uri=a" && path != "/source/maps/bytes?uri=a" && (w.Code != 503 || !strings.Contains(textOf(page), "the state is being opened <script>")) {
			t.Errorf("%s: %d %s", path, w.Code, textOf(page))
		}
		if wrong := inspect(page); len(wrong) > 0 {
			t.Errorf("%s: %v", path, wrong)
		}
	}
}

// TestEmpty: a daemon without Sources says what to do.
func TestEmpty(t *testing.T) {
	t.Parallel()
	f := newFake(time.Now(), "")
	f.names = nil
	page := parse(t, ask(New(Options{Data: f}), http.MethodGet, "/").Body.String())
	if text := textOf(page); !strings.Contains(text, "No Source yet") || !strings.Contains(text, "0 Sources") {
		t.Error(text)
	}
	if wrong := inspect(page); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// TestBytes: a mirrored page is saved, not shown.
func TestBytes(t *testing.T) {
	t.Parallel()
	h := New(Options{Data: newFake(time.Now(), nasty)})
	w := ask(h, http.MethodGet, "/source/maps/bytes?uri=x")
	if w.Code != 200 || w.Body.String() != "<!doctype html><script>alert(1)</script>" || w.Header().Get("Content-Length") != "40" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	for name, want := range map[string]string{
		"page.html": `attachment; filename=page.html`, "a b.pdf": `attachment; filename="a b.pdf"`, "../../etc/passwd": `attachment; filename=passwd`,
		`..\..\x`: `attachment; filename=x`, "": `attachment; filename=resource`, "..": `attachment; filename=resource`, "a/": `attachment; filename=a`,
		"x\r\nSet-Cookie: a=b": `attachment; filename="x__Set-Cookie_ a=b"`, `a";x="b`: `attachment; filename="a__x=_b"`, "ü.txt": `attachment; filename*=utf-8''%C3%BC.txt`,
		"a\u202egnp.exe": `attachment; filename=a_gnp.exe`, strings.Repeat("é", 100) + ".pdf": `attachment; filename*=utf-8''` + strings.Repeat("%C3%A9", 73) + ".pdf",
	} {
		if got := attachment(name); got != want {
			t.Errorf("%q: %s", name, got)
		}
	}
	for kind, want := range map[string]string{
		"text/plain": "text/plain; charset=utf-8", "text/plain; charset=utf-7": "text/plain; charset=utf-8", "TEXT/PLAIN": "text/plain; charset=utf-8",
		"text/html": "application/octet-stream", "image/svg+xml": "application/octet-stream", "": "application/octet-stream", "text/plain, text/html": "application/octet-stream",
		"application/xml": "application/octet-stream", "text/javascript": "application/octet-stream",
	} {
		if got := harmless(kind); got != want {
			t.Errorf("%q: %s", kind, got)
		}
	}
}

// TestPagesAreMadeInTurn: as many as there is room for at once, the others wait for a while; a client that reads slowly takes
// no room.
func TestPagesAreMadeInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		h := New(Options{Data: &gated{fake: newFake(time.Now(), ""), gate: gate}})
		codes := make(chan int, makers)
		for range makers {
			go func() { codes <- ask(h, http.MethodGet, "/").Code }()
		}
		synctest.Wait()
		begin := time.Now()
		if w := ask(h, http.MethodGet, "/source/maps"); w.Code != 503 || time.Since(begin) != readTime || w.Header().Get("Retry-After") == "" {
			t.Errorf("one too many: %d after %v", w.Code, time.Since(begin))
		}
		close(gate)
		for range makers {
			<-codes
		}
		read := make(chan struct{})
		var slow sync.WaitGroup
		for range 2 * makers {
			slow.Go(func() {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Host = "localhost"
				h.ServeHTTP(&sluggish{ResponseRecorder: httptest.NewRecorder(), read: read}, r)
			})
		}
		synctest.Wait()
		if w := ask(h, http.MethodGet, "/"); w.Code != 200 {
			t.Errorf("beside slow clients: %d", w.Code)
		}
		close(read)
		slow.Wait()
	})
}

type gated struct {
	*fake
	gate chan struct{}
}

func (g *gated) Overview(ctx context.Context) (Overview, error) {
	<-g.gate
	return g.fake.Overview(ctx)
}

type sluggish struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (s *sluggish) Write(p []byte) (int, error) { <-s.read; return s.ResponseRecorder.Write(p) }

// TestSizes: what a browser has to fetch stays small.
func TestSizes(t *testing.T) {
	t.Parallel()
	f := newFake(time.Now(), "")
	h := New(Options{Data: f})
	chrome := ask(h, http.MethodGet, "/nothing").Body.Len()
	for path := range assets() {
		chrome += ask(h, http.MethodGet, path).Body.Len()
	}
	if chrome > 100<<10 {
		t.Errorf("assets and frame: %d bytes", chrome)
	}
	f.rows = 500
	if n := ask(h, http.MethodGet, "/").Body.Len(); n > 1<<20 {
		t.Errorf("500 Sources: %d bytes", n)
	}
	t.Logf("assets and frame: %d bytes, 500 Sources: %d", chrome, ask(h, http.MethodGet, "/").Body.Len())
}

// BenchmarkOverviewPage makes the page of 500 Sources.
func BenchmarkOverviewPage(b *testing.B) {
	f := newFake(time.Now(), "")
	f.rows = 500
	view, err := f.Overview(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	h := New(Options{Data: &still{fake: f, view: view}})
	b.ReportAllocs()
	for b.Loop() {
		w := ask(h, http.MethodGet, "/")
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
		b.ReportMetric(float64(w.Body.Len()), "B/page")
	}
}

func TestWorstFirst(t *testing.T) {
	t.Parallel()
	rows := []Row{{Name: "b"}, {Name: "z", Finding: Finding{Level: Bad}}, {Name: "a"}, {Name: "c", Finding: Finding{Level: Warn}}, {Name: "d", Finding: Finding{Level: Bad}}}
	slices.SortFunc(rows, worstFirst)
	var got []string
	for _, r := range rows {
		got = append(got, r.Name)
	}
	if strings.Join(got, "") != "dzcab" {
		t.Errorf("%v", got)
	}
}
