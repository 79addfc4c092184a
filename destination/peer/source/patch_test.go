package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"pgregory.net/rapid"

	"resyncd/destination/rsdoc"
)

// patched is a document after a patch, by a library, written as a Destination does.
func patched(t failer, before, document []byte) []byte {
	t.Helper()
	p, err := jsonpatch.DecodePatch(document)
	if err != nil {
		t.Fatalf("patch %s: %v", document, err)
	}
	options := jsonpatch.NewApplyOptions()
	options.EscapeHTML, options.SupportNegativeIndices = false, false
	after, err := p.ApplyWithOptions(before, options)
	if err != nil {
		t.Fatalf("%s to %s: %v", document, before, err)
	}
	value, _ := canonical(after)
	return compact(value)
}

func TestMakePatch(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("x", 200) + `"`
	deep := func(middle string) string {
		return strings.Repeat("[", 150) + middle + strings.Repeat("]", 150)
	}
	for _, c := range []struct{ what, before, after, want string }{
		{"value", `{"a":1,"z":` + long + `}`, `{"a":2,"z":` + long + `}`, `[{"op":"replace","path":"/a","value":2}]`},
		{"kind", `{"a":[],"z":` + long + `}`, `{"a":{},"z":` + long + `}`, `[{"op":"replace","path":"/a","value":{}}]`},
		{"null", `{"a":null,"z":` + long + `}`, `{"a":1,"b":null,"z":` + long + `}`,
			`[{"op":"replace","path":"/a","value":1},{"op":"add","path":"/b","value":null}]`},
		{"number as written", `{"a":1.0,"z":` + long + `}`, `{"a":12345678901234567890.10,"z":` + long + `}`,
			`[{"op":"replace","path":"/a","value":12345678901234567890.10}]`},
		{"keys", `{"a":1,"b":2,"z":` + long + `}`, `{"b":2,"c":3,"z":` + long + `}`,
			`[{"op":"remove","path":"/a"},{"op":"add","path":"/c","value":3}]`},
		{"names", `{"":1,"a/b~c":{"<&>":1},"z":` + long + `}`, `{"":2,"a/b~c":{"<&>":2},"z":` + long + `}`,
			`[{"op":"replace","path":"/","value":2},{"op":"replace","path":"/a~1b~0c/<&>","value":2}]`},
		{"below an empty name", `{"":[10],"z":` + long + `}`, `{"":[0],"z":` + long + `}`,
			`[{"op":"replace","path":"/","value":[0]}]`},
		{"inserted", `[1,2,` + long + `]`, `[1,7,8,2,` + long + `]`,
			`[{"op":"add","path":"/1","value":7},{"op":"add","path":"/2","value":8}]`},
		{"taken out", `[1,7,8,2,` + long + `]`, `[1,2,` + long + `]`,
			`[{"op":"remove","path":"/1"},{"op":"remove","path":"/1"}]`},
		{"appended", `[` + long + `,1]`, `[` + long + `,1,2]`, `[{"op":"add","path":"/2","value":2}]`},
		{"repeated", `[1,1,` + long + `]`, `[1,1,1,` + long + `]`, `[{"op":"add","path":"/2","value":1}]`},
		{"inside", `[{"a":1},5,` + long + `]`, `[{"a":2},6,7,` + long + `]`, `[{"op":"replace","path":"/0/a","value":2},` +
			`{"op":"replace","path":"/1","value":6},{"op":"add","path":"/2","value":7}]`},
		{"beyond ASCII", `["é\"\u2028",` + long + `]`, `["è\"\u2029",` + long + `]`,
			`[{"op":"replace","path":"/0","value":"è\"\u2029"}]`},

		{"the same", `[1,` + long + `]`, `[1,` + long + `]`, ""},
		{"no version before", "", `[1]`, ""},
		{"larger than the file", `[1]`, `[2]`, ""},
		{"all another", `{"a":` + long + `}`, `[` + long + `]`, ""},
		{"spaces before", `[1, ` + long + `]`, `[2,` + long + `]`, ""},
		{"spaces after", `[1,` + long + `]`, `[2, ` + long + `]`, ""},
		{"line break", "[1," + long + "]\n", "[2," + long + "]\n", ""},
		{"order of keys", `{"z":` + long + `,"a":1}`, `{"a":2,"z":` + long + `}`, ""},
		{"a key twice", `{"a":1,"a":1,"z":` + long + `}`, `{"a":2,"z":` + long + `}`, ""},
		{"escapes", `["\u0026",` + long + `]`, `["&","",` + long + `]`, ""},
		{"no UTF-8", "[\"\xff\"," + long + `]`, `["",` + long + `]`, ""},
		{"more behind", `[1,` + long + `][]`, `[2,` + long + `]`, ""},
		{"no JSON", `[1,` + long, `[2,` + long + `]`, ""},
		{"too deep", deep("1"), deep("2"), ""},
	} {
		got := makePatch([]byte(c.before), []byte(c.after))
		if string(got) != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		} else if got != nil && string(patched(t, []byte(c.before), got)) != c.after {
			t.Errorf("%s: %s is not what it leads to", c.what, got)
		}
	}
}

// TestPatchIsBounded: what would take more than the file is left early, however much is different.
func TestPatchIsBounded(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 1000)
	one, two := map[string]any{key: make([]int, 20_000)}, map[string]any{key: make([]int, 20_000)}
	for i := range two[key].([]int) {
		two[key].([]int)[i] = 1
	}
	after := compact(two)
	from, _ := canonical(compact(one))
	to, _ := canonical(after)
	d := differ{room: len(after)}
	d.change(from, to)
	if most := len(after) / len(key); len(d.steps) > most || d.room >= 0 {
		t.Errorf("%d steps for %d bytes, %d left", len(d.steps), len(after), d.room)
	}
	if makePatch(compact(one), after) != nil {
		t.Error("a patch longer than the file")
	}
}

// drawJSON draws a document; small alphabets let two of them have much in common.
func drawJSON(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	key := rapid.StringOfN(rapid.RuneFrom([]rune("ab~/<é\u2028\"\x00")), 0, 2, -1)
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return json.Number(rapid.SampledFrom([]string{"0", "1", "1.0", "-1e5", "12345678901234567890"}).Draw(t, "number"))
	case 3:
		return key.Draw(t, "string")
	case 4:
		out := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "length") {
			out = append(out, drawJSON(t, depth-1))
		}
		return out
	}
	out := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "keys") {
		out[key.Draw(t, "key")] = drawJSON(t, depth-1)
	}
	return out
}

// TestPatchLeadsFromOldToNew holds patches against a library. What both documents begin and end with makes room for the
// longest patches.
func TestPatchLeadsFromOldToNew(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rest := strings.Repeat("x", 4000)
		before := compact([]any{rest, drawJSON(t, 4)})
		after := compact([]any{rest, drawJSON(t, 4)})
		document := makePatch(before, after)
		switch {
		case bytes.Equal(before, after):
			if document != nil {
				t.Fatalf("a patch for nothing: %s", document)
			}
		case document == nil:
			t.Fatalf("no patch from %s to %s", before, after)
		case !bytes.Equal(patched(t, before, document), after):
			t.Fatalf("%s does not lead from %s to %s", document, before, after)
		}
	})
}

func FuzzMakePatch(f *testing.F) {
	rest := `,"` + strings.Repeat("x", 100) + `"]`
	f.Add([]byte(`[{"a":[1,2,3]}`+rest), []byte(`[{"a":[1,3],"b":null}`+rest))
	f.Add([]byte(`[{"":1,"a/b":"\u2028"}`+rest), []byte(`[{"a/b":1e400}`+rest))
	f.Add([]byte(`{`), []byte("\xff"))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		document := makePatch(before, after)
		if document == nil {
			return
		}
		if len(document) >= len(after) || !bytes.Equal(patched(t, before, document), after) {
			t.Errorf("%s does not lead from %s to %s", document, before, after)
		}
	})
}

// patchOf is the patch that an entry names, after all that is said of it was checked.
func patchOf(t failer, s *Source, e rsdoc.Entry) []byte {
	t.Helper()
	var document []byte
	for _, l := range e.Links {
		if l.Rel != rsdoc.RelPatch {
			continue
		}
		document = get(t, s, l.Href)
		if document == nil || l.Type != "application/json-patch" || l.Length != int64(len(document)) ||
			len(l.Digests) != 1 || !bytes.Equal(l.Digests[0].Sum[:32], sumBytes(document)) || e.Change != rsdoc.ChangeUpdated {
			t.Errorf("%s of %s: %+v", document, e.Loc, l)
		}
	}
	return document
}

func sumBytes(b []byte) []byte {
	sum := sumOf(string(b))
	return sum[:]
}

// TestPatchesOfFolder follows two JSON files, and others that have no patches, through lists and notifications.
func TestPatchesOfFolder(t *testing.T) {
	t.Parallel()
	var hub script
	dir := t.TempDir()
	rest := `,"z":"` + strings.Repeat("x", 400) + `"}`
	large := `["` + strings.Repeat("x", maxPatched) + `"`
	version := func(n int) map[string]string {
		return map[string]string{
			"a.json":      fmt.Sprintf(`{"a":%d`, n) + rest,
			"sub/b.json":  fmt.Sprintf(`{"b":"%d"`, n) + rest,
			"spaces.json": fmt.Sprintf(`{"a": %d`, n) + rest, "large.json": large + fmt.Sprintf(`,%d]`, n),
			"text.txt": fmt.Sprintf(`{"a":%d`, n) + rest,
		}
	}
	state := map[string]string{}
	put := func(files map[string]string) {
		for name, body := range files {
			write(t, dir, name, body)
		}
	}
	put(version(0))
	s := scriptedSource(t, Options{Dir: dir, Patches: true, Collections: true, ChangeListSize: 7}, &hub)
	defer s.Close()
	for name, body := range version(0) {
		state[s.URI(name)] = body
	}
	names := map[string]string{}
	for name := range version(0) {
		names[s.URI(name)] = name
	}
	for n := 1; n <= 3; n++ {
		put(version(n))
		scan(t, s)
	}
	versions := map[string]int{}
	follow := func(entries []rsdoc.Entry) (patches int) {
		for _, e := range entries {
			name := names[e.Loc]
			versions[name]++
			if document := patchOf(t, s, e); document != nil {
				patches++
				if got := patched(t, []byte(state[e.Loc]), document); string(got) != version(versions[name])[name] {
					t.Errorf("%s: patch %s leads to %s", name, document, got)
				}
			} else if name == "a.json" || name == "sub/b.json" {
				t.Errorf("%s has no patch to version %d", name, versions[name])
			}
			state[e.Loc] = version(versions[name])[name]
		}
		return patches
	}
	heads, lists := changeLists(t, s)
	if len(heads) < 2 {
		t.Fatalf("%d Change Lists", len(heads))
	}
	patches := 0
	for _, list := range lists {
		patches += follow(list)
	}
	if patches != 6 {
		t.Errorf("%d patches, want 3 of each of two files", patches)
	}
	_, entries := read(t, get(t, s, testBase+"/"+resourceList))
	for _, e := range entries {
		if patchOf(t, s, e) != nil {
			t.Errorf("the Resource List has a patch of %s", e.Loc)
		}
	}
	b := s.changes.take()
	body, err := s.changes.notification(b)
	if err != nil {
		t.Fatal(err)
	}
	checkXML(t, body)
	patches = 0
	_, entries = read(t, body)
	for _, e := range entries {
		if patchOf(t, s, e) != nil {
			patches++
		}
	}
	if patches != 6 || len(body) > b.size+1000 {
		t.Errorf("%d patches in a notification of %d bytes, which was thought to have %d", patches, len(body), b.size)
	}
	body, err = s.changes.notification(forged(b))
	if err != nil || bytes.Contains(body, []byte(rsdoc.RelPatch)) {
		t.Errorf("patches of what is said to be deleted: %v, %s", err, body)
	}
	if resp := ask(s, "GET", "/"+patchDocuments+"no-such"); resp.StatusCode != 404 {
		t.Errorf("no patch: %s", resp.Status)
	}
}

// TestPatchNeedsTheVersionBefore: no patch is offered where the version before is not the one that was published.
func TestPatchNeedsTheVersionBefore(t *testing.T) {
	t.Parallel()
	rest := `,"` + strings.Repeat("x", 400) + `"]`
	var s *Source
	last := func() rsdoc.Entry {
		_, lists := changeLists(t, s)
		list := lists[len(lists)-1]
		return list[len(list)-1]
	}
	for _, c := range []struct {
		what string
		then func()
		want bool
	}{
		{"as it was", func() {}, true},
		{"deleted", func() { s.Delete("a.json") }, false},
		{"another meanwhile", func() {
			rec := &record{name: "a.json", live: true, content: memory("[7" + rest)}
			if err := s.fill(rec, bytes.NewReader(rec.content.(memory))); err != nil {
				t.Fatal(err)
			}
			s.publish(rec)
		}, false},
		{"too large meanwhile", func() { mustPut(t, s, "a.json", `["`+strings.Repeat("x", maxPatched)+`"]`) }, false},
		{"forgotten", func() { s.patches.versions.drop(s.patches.versions.items["a.json"]) }, false},
	} {
		s = newSource(t, Options{Patches: true})
		mustPut(t, s, "a.json", "[1"+rest)
		c.then()
		mustPut(t, s, "a.json", "[2"+rest)
		if got := patchOf(t, s, last()); (got != nil) != c.want || patchesKept(s) != 0 {
			t.Errorf("%s: patch %s, and %d wait", c.what, got, patchesKept(s))
		}
	}
	s = newSource(t, Options{})
	mustPut(t, s, "a.json", "[1"+rest)
	mustPut(t, s, "a.json", "[2"+rest)
	if e := last(); len(e.Links) > 0 || ask(s, "GET", "/"+patchDocuments+"x").StatusCode != 404 {
		t.Errorf("off: %+v", e)
	}
}

// TestPatchesOfManyWriters: whoever wins, the patch of each entry leads from the entry before.
func TestPatchesOfManyWriters(t *testing.T) {
	t.Parallel()
	rest := `,"` + strings.Repeat("x", 400) + `"]`
	s := newSource(t, Options{Patches: true})
	bodies := map[[32]byte]string{}
	var work sync.WaitGroup
	for i := range 40 {
		body := fmt.Sprintf("[%d", i) + rest
		bodies[sumOf(body)] = body
		work.Go(func() { mustPut(t, s, "a.json", body) })
	}
	work.Wait()
	_, lists := changeLists(t, s)
	before := ""
	for _, e := range lists[0] {
		after := bodies[sha256Of(t, e)]
		if document := patchOf(t, s, e); document != nil && string(patched(t, []byte(before), document)) != after {
			t.Errorf("%s does not lead to %s", document, after)
		}
		before = after
	}
	if len(lists[0]) != 40 || patchesKept(s) != 0 {
		t.Errorf("%d entries, %d patches wait", len(lists[0]), patchesKept(s))
	}
}

// TestTouchedFileHasNoPatch: nothing has to be changed in it.
func TestTouchedFileHasNoPatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.json", `{"a":1}`)
	s := newFolder(t, dir, Options{Patches: true})
	if err := os.Chtimes(filepath.Join(dir, "a.json"), time.Time{}, time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	if err := s.Scan(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, lists := changeLists(t, s)
	if len(lists[0]) != 1 || len(lists[0][0].Links) != 0 || patchesKept(s) != 0 {
		t.Errorf("%+v, %d patches wait", lists[0], patchesKept(s))
	}
}

// TestShelf: the oldest goes, and the size is what is there.
func TestShelf(t *testing.T) {
	t.Parallel()
	bytes := make([]byte, maxShelf)
	rapid.Check(t, func(t *rapid.T) {
		h := newShelf()
		var names []string // as a slow shelf has them
		sizes := map[string]int{}
		for range rapid.IntRange(1, 60).Draw(t, "puts") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "name")
			size := rapid.SampledFrom([]int{0, maxShelf / 5, maxShelf / 3, maxShelf - shelfCost, maxShelf}).Draw(t, "size")
			h.put(name, bytes[:size])
			if i := slices.Index(names, name); i >= 0 {
				names = append(names[:i:i], names[i+1:]...)
			}
			names, sizes[name] = append(names, name), size
			total := func() (sum int) {
				for _, n := range names {
					sum += sizes[n] + shelfCost
				}
				return sum
			}
			for total() > maxShelf {
				names = names[1:]
			}
			if h.size != total() || h.order.Len() != len(names) || len(h.items) != len(names) {
				t.Fatalf("%d bytes of %d, want %d of %v", h.size, len(h.items), total(), names)
			}
			for _, n := range names {
				if body := h.get(n); body == nil || len(body) != sizes[n] {
					t.Fatalf("%s: %d bytes, want %d", n, len(body), sizes[n])
				}
			}
		}
	})
}

// patchesKept counts those that what is published now holds on to.
func patchesKept(s *Source) (n int) {
	for _, rec := range s.catalog.all {
		if rec != nil && rec.patch != nil {
			n++
		}
	}
	return n
}

// TestPatchOfLongPaths: a patch that gets too long is given up, not written to its end.
func TestPatchOfLongPaths(t *testing.T) {
	document := func(digit string) []byte {
		key := strings.Repeat("k", 400_000)
		return []byte(`{"` + key + `":[` + strings.Repeat(digit+",", 9_999) + digit + `]}`)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if patch := makePatch(document("1"), document("2")); patch != nil {
		t.Errorf("a patch of %d bytes", len(patch))
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 100<<20 {
		t.Errorf("%d MiB for no patch", taken>>20)
	}
}
