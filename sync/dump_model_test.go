package sync

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"resyncd/sync/keymap"
)

// dumpMachine is a Source with any of lists and dumps, and a mirror of it that is killed now and then.
type dumpMachine struct {
	*fake
	lists, changes   bool // beside which dumps stand
	dump, changeDump bool
	minute, cut      int
	now              map[string]string
	ever             map[string]bool // hashes of key and body that were served
	log              []member        // changes, each in a minute of its own
	dumped, cds      []string
	serial           int
}

func (m *dumpMachine) change(rt *rapid.T) {
	m.minute++
	path := fmt.Sprintf("/r%03d", rapid.IntRange(0, 8).Draw(rt, "resource"))
	if body, there := m.now[path]; there && body != "" && len(m.now) > 1 && rapid.IntRange(0, 3).Draw(rt, "delete") == 0 {
		delete(m.now, path)
		m.handle(path, nil)
		m.log = append(m.log, member{path: path, md: fmt.Sprintf(`change="deleted" datetime="%s"`, when(m.minute))})
		return
	}
	m.serial++
	body := fmt.Sprint(path, " ", m.serial)
	m.now[path] = body
	m.page(path, body)
	key, err := keymap.NaturalKey(m.uri(path))
	if err != nil {
		rt.Fatal(err)
	}
	m.ever[key+fmt.Sprintf("%x", sha256.Sum256([]byte(body)))] = true
	m.log = append(m.log, member{path: path, body: body, md: fmt.Sprintf(`change="updated" datetime="%s"`, when(m.minute))})
}

// publish writes the documents. Dumps lag behind lists until they are taken anew.
func (m *dumpMachine) publish(rt *rapid.T, take, sound bool) {
	if m.lists {
		var entries []string
		for _, path := range slices.Sorted(maps.Keys(m.now)) {
			entries = append(entries, m.entry(path, fixity(m.now[path])))
		}
		m.page("/rl.xml", list("resourcelist", `at="`+when(m.minute)+`"`, entries...))
	}
	if m.changes {
		var entries []string
		for _, c := range m.log {
			md := c.md
			if c.body != "" {
				md += " " + fixity(c.body)
			}
			entries = append(entries, m.entry(c.path, md))
		}
		m.page("/cl.xml", list("changelist", `from="`+when(0)+`"`, entries...))
	}
	if !take {
		return
	}
	if m.dump {
		m.dumped = nil
		paths := slices.Sorted(maps.Keys(m.now))
		for part := range slices.Chunk(paths, rapid.IntRange(1, 9).Draw(rt, "package size")) {
			var ms []member
			for _, path := range part {
				ms = append(ms, member{path: path, body: m.now[path]})
			}
			m.dumped = append(m.dumped, m.put(rt, "resourcedump-manifest", `at="`+when(m.minute)+`"`, "", ms, sound))
		}
		m.page("/rd.xml", list("resourcedump", `at="`+when(m.minute)+`"`, m.dumped...))
	}
	if m.changeDump {
		if news := m.log[m.cut:]; len(news) > 0 {
			from := 0
			if m.cut > 0 {
				from = m.minute - len(news)
			}
			md := fmt.Sprintf(`from="%s" until="%s"`, when(from), when(m.minute))
			m.cds = append(m.cds, m.put(rt, "changedump-manifest", md, md, news, sound))
			m.cut = len(m.log)
		}
		m.page("/cd.xml", list("changedump", `from="`+when(0)+`"`, m.cds...))
	}
}

// put makes a package and its entry, spoilt unless it is sound.
func (m *dumpMachine) put(rt *rapid.T, kind, attributes, md string, ms []member, sound bool) string {
	m.serial++
	path, contents := fmt.Sprintf("/p%d.zip", m.serial), ""
	manifest, said := m.manifest(kind, attributes, ms), ms
	fault := "none"
	if !sound {
		fault = rapid.SampledFrom([]string{"none", "none", "bytes", "missing", "cut", "page", "gone", "broken"}).Draw(rt, "fault")
	}
	switch fault {
	case "bytes":
		ms = slices.Clone(ms)
		if ms[0].body != "" {
			ms[0].body = strings.Repeat("!", len(ms[0].body))
		}
	case "missing":
		ms = ms[:len(ms)-1]
	}
	whole := m.pack(path, manifest, ms)
	for _, r := range said { // pack has put bodies there that are not of now
		if body, there := m.now[r.path]; there {
			m.page(r.path, body)
		} else {
			m.handle(r.path, nil)
		}
	}
	switch fault {
	case "cut":
		m.file(path, whole[:len(whole)*2/3])
	case "page":
		m.page(path, "<html><body>Sorry</body></html>")
	case "gone":
		m.handle(path, nil)
	case "broken":
		m.handle(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
			_, _ = w.Write(whole[:len(whole)/2])
			panic(http.ErrAbortHandler)
		})
	}
	switch rapid.IntRange(0, 3).Draw(rt, "contents") {
	case 0:
		contents = path + ".xml"
		m.page(contents, manifest)
	case 1:
		contents = path + ".xml"
		m.handle(contents, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html/>") })
	}
	length := len(whole)
	if rapid.IntRange(0, 4).Draw(rt, "length") == 0 {
		length = -1
	}
	e := m.packageEntry(path, contents, md, length)
	return strings.Replace(e, ` length="-1"`, "", 1)
}

// check: nothing in the mirror was never served, and nothing is asked for over and over.
func (m *dumpMachine) check(rt *rapid.T) {
	for key, sum := range m.files() {
		if !m.ever[key+sum] {
			rt.Fatalf("%s holds what was never served", key)
		}
	}
	m.rig.mu.Lock()
	defer m.rig.mu.Unlock()
	asked := map[string]int{}
	for _, p := range m.asks {
		asked[p]++ // a transfer that breaks off is tried four times, and what nothing else tells of in each reading
		if n := asked[p]; n > 4 && strings.HasPrefix(p, "/r0") || n > 12 && strings.HasSuffix(p, ".zip") {
			rt.Fatalf("%s is asked for %d times", p, asked[p])
		}
	}
}

// TestDumpModel: whatever of lists, dumps and contents there is, and whatever is wrong with packages, the mirror equals
// the Source once it is calm, holds nothing else on the way, and is quiet then.
func TestDumpModel(t *testing.T) {
	t.Parallel()
	budget, root := usual(15*time.Second), ramDir(t)
	if d, err := time.ParseDuration(os.Getenv("RESYNCD_MODEL_TIME")); err == nil {
		budget = d
	}
	end := time.Now().Add(budget)
	rapid.Check(t, func(rt *rapid.T) {
		if time.Now().After(end) {
			return
		}
		folder, err := os.MkdirTemp(root, "model-")
		if err != nil {
			rt.Fatal(err)
		}
		m := &dumpMachine{fake: newFakeIn(rt, folder), now: map[string]string{}, ever: map[string]bool{}}
		defer m.srv.Close()
		m.rig.mirror.Unsynced = true
		offers := rapid.SampledFrom([]string{"rl rd", "rl cl rd", "rl cl cd", "rl cl rd cd", "rd", "rd cd", "rd cl", "rl cd", "cd"}).Draw(rt, "offers")
		mode := rapid.SampledFrom([]string{"auto", "always"}).Draw(rt, "mode")
		m.tune = func(t *Target) { t.Dumps = mode }
		var set []string
		for of, where := range map[string]struct {
			kind string
			on   *bool
		}{
			"rl": {"resourcelist", &m.lists}, "cl": {"changelist", &m.changes},
			"rd": {"resourcedump", &m.dump}, "cd": {"changedump", &m.changeDump},
		} {
			if *where.on = slices.Contains(strings.Fields(offers), of); *where.on {
				set = append(set, where.kind, "/"+of+".xml")
			}
		}
		m.set(set...)
		m.change(rt)
		m.publish(rt, true, true)
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			for range rapid.IntRange(0, 9).Draw(rt, "changes") {
				m.change(rt)
			}
			m.publish(rt, rapid.Bool().Draw(rt, "dumps too"), false)
			switch rapid.SampledFrom([]string{"sync", "sync", "killed", "nothing"}).Draw(rt, "then") {
			case "sync":
				if _, err := m.run(); err != nil {
					rt.Fatal(err)
				}
				m.check(rt)
			case "killed":
				m.dieAfter(int64(rapid.IntRange(1, 25).Draw(rt, "killed after")))
				m.check(rt)
			}
		}
		m.change(rt)
		if m.changeDump { // spoilt packages stay what they are, so they are made anew
			m.cds, m.cut = nil, 0
		}
		m.publish(rt, true, true)
		var res Result
		for range 3 {
			if res, err = m.run(); err != nil {
				rt.Fatal(err)
			}
			if m.check(rt); res.InStep {
				break
			}
		}
		if !res.InStep {
			rt.Fatalf("after calm: %+v", res)
		}
		m.holds(m.now)
		if names := m.spools(); len(names) > 0 {
			rt.Fatalf("left behind: %q", names)
		}
		if res, err = m.run(); err != nil || res.Fetched != 0 || !res.InStep {
			rt.Fatalf("nothing is new: %+v, %v", res, err)
		}
		if gets, _ := m.gets(); len(gets) > 0 {
			rt.Fatalf("asked for again: %v", gets)
		}
	})
}
