package sync

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"resyncd/destination/peer/source"
	"resyncd/destination/rsdoc"
)

// answer is what the Source itself answers.
func (r *rig) answer(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.src.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, r.srv.URL+path, nil))
	return w
}

// linked has documents say of each resource what link makes of its path.
func (r *rig) linked(link func(path string) string, over func(http.ResponseWriter, *http.Request) bool) {
	r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		if over != nil && over(w, req) {
			return true
		}
		if !strings.Contains(req.URL.Path, "list") || req.Method != http.MethodGet {
			return false
		}
		doc := r.answer(req.URL.Path).Body.String()
		for uri := range r.src.Resources() {
			at := "<loc>" + uri + "</loc>"
			doc = strings.ReplaceAll(doc, at, at+link(strings.TrimPrefix(uri, r.srv.URL)))
		}
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write([]byte(doc))
		return true
	})
}

// TestRunByBatches: a Source with an endpoint for many resources is asked for few of them one by one.
func TestRunByBatches(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(40))
	r.tune = func(target *Target) { target.Batch, target.BatchSize = r.srv.URL+"/.resourcesync/batch", 10 }
	posts := make(chan int, 100)
	r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/.resourcesync/batch" {
			return false
		}
		var uris []string
		if err := json.NewDecoder(req.Body).Decode(&uris); err != nil || req.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v, %s", req.Method, err, req.Header)
		}
		posts <- len(uris)
		var list strings.Builder
		z := zip.NewWriter(w)
		for i, uri := range uris {
			member, err := z.Create(fmt.Sprint(i))
			if err == nil {
				_, err = member.Write(r.answer(strings.TrimPrefix(uri, r.srv.URL)).Body.Bytes())
			}
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(&list, `<url><loc>%s</loc><rs:md path="/%d"/></url>`, uri, i)
		}
		member, err := z.Create("manifest.xml")
		if err == nil {
			_, err = fmt.Fprintf(member, `<urlset xmlns="%s" xmlns:rs="%s"><rs:md capability="resourcedump-manifest"/>%s</urlset>`,
				rsdoc.NamespaceSitemap, rsdoc.NamespaceRS, list.String())
		}
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			t.Error(err)
		}
		return true
	})
	res := r.must()
	close(posts)
	n, asked := int64(0), int64(0)
	for uris := range posts {
		if uris < 2 || uris > 10 {
			t.Errorf("%d URIs in one request", uris)
		}
		n, asked = n+1, asked+int64(uris)
	}
	if res.Fetched != 40 || res.Batches != n || res.FromPackages != asked || asked < 20 {
		t.Errorf("%+v, %d requests for %d resources", res, n, asked)
	}
}

// TestRunWithoutItsEndpoint: one that is not there costs a request.
func TestRunWithoutItsEndpoint(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(40))
	r.tune = func(target *Target) { target.Batch, target.BatchSize = r.srv.URL+"/nothing", 10 }
	if res := r.must(); res.Fetched != 40 || res.FromPackages != 0 || res.Batches < 1 || res.Batches > 5 {
		t.Errorf("%+v", res)
	}
}

// TestSpoolsOfAKill: a package waits for what is owed, an answer for nothing.
func TestSpoolsOfAKill(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, many(2))
	r.tune = func(target *Target) { target.Dumps = "auto" }
	r.interpose(func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path == "/d1/r001.txt" {
			http.NotFound(w, req)
		}
		return req.URL.Path == "/d1/r001.txt"
	})
	waits := strings.Repeat("0", 64)
	r.with(func(_ *Engine, target Target) {
		for _, name := range []string{waits, strings.Repeat("0", 16)} {
			s, err := target.Mirror.Spool(t.Context(), name)
			if err == nil {
				err = s.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if res, err := r.run(); err != nil || res.Owed != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	r.with(func(_ *Engine, target Target) {
		if left := spoolsOf(t, target.Mirror); !slices.Equal(left, []string{waits}) {
			t.Errorf("left: %q", left)
		}
	})
}

// TestRunByDuplicates: what the Source itself lacks comes from where it says that the same bytes are.
func TestRunByDuplicates(t *testing.T) {
	t.Parallel()
	for means, from := range map[string]int64{"fallback": 1, "prefer": 3, "off": 0} {
		r := newRig(t, source.Options{}, many(3))
		r.tune = func(target *Target) { target.Duplicates = means }
		r.linked(func(path string) string {
			return fmt.Sprintf(`<rs:ln rel="duplicate" href="%s/cdn%s" pri="1"/>`, r.srv.URL, path)
		}, func(w http.ResponseWriter, req *http.Request) bool {
			if path, ok := strings.CutPrefix(req.URL.Path, "/cdn"); ok {
				_, _ = w.Write(r.answer(path).Body.Bytes())
				return true
			}
			if req.URL.Path != "/d1/r001.txt" {
				return false
			}
			http.NotFound(w, req)
			return true
		})
		res, err := r.run()
		if err != nil || res.FromDuplicates != from || res.InStep != (from > 0) || res.Owed != map[bool]int64{true: 1}[from == 0] {
			t.Errorf("%s: %+v, %v", means, res, err)
		}
		if from > 0 {
			r.equal()
		}
	}
}

// TestRunByPatch: a change is a patch of what is in the mirror.
func TestRunByPatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, source.Options{}, map[string]string{"a.json": `{"a":1}`, "b.json": `{"a":1}`})
	r.tune = func(target *Target) { target.Patches = true }
	patch := `[{"op":"add","path":"/b","value":[]}]`
	r.linked(func(path string) string {
		return fmt.Sprintf(`<rs:ln rel="%s" href="%s/patch%s" type="application/json-patch+json" length="%d"/>`,
			rsdoc.RelPatch, r.srv.URL, path, len(patch))
	}, func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasPrefix(req.URL.Path, "/patch/") {
			return false
		}
		_, _ = w.Write([]byte(patch))
		return true
	})
	if res := r.must(); res.Patched != 0 || res.Fetched != 2 {
		t.Errorf("%+v", res)
	}
	r.put("a.json", `{"a":1,"b":[]}`)
	r.put("b.json", `{"b": "written otherwise"}`)
	res := r.must()
	if _, asked := r.asked(); res.Patched != 1 || res.Fetched != 2 || slices.Contains(asked, "/a.json") || !slices.Contains(asked, "/b.json") {
		t.Errorf("%+v, asked for %v", res, asked)
	}
	// The last of two updates is no patch of the copy, even if it would bring the right bytes.
	r.put("a.json", `{"a":1}`)
	r.put("a.json", `{"a":1,"b":[],"c":0}`)
	patch = `[{"op":"add","path":"/c","value":0}]`
	res = r.must()
	if _, asked := r.asked(); res.Patched != 0 || res.Fetched != 1 || slices.Contains(asked, "/patch/a.json") {
		t.Errorf("joined: %+v, asked for %v", res, asked)
	}
}

// TestLineOfARun: what each way brought is in the line of a run, also where it is nothing.
func TestLineOfARun(t *testing.T) {
	t.Parallel()
	line, err := json.Marshal(Result{})
	for _, field := range []string{"packages", "from_packages", "patched", "from_duplicates", "batches"} {
		if err != nil || !bytes.Contains(line, []byte(`"`+field+`":0`)) {
			t.Errorf("no %s: %s, %v", field, line, err)
		}
	}
}
