package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/cmd/resyncd/internal/mirror"
)

// memoryAllowance is how much memory hostile input may cost a process, above what it takes by itself, which is no more. The
// race detector takes several times as much.
const memoryAllowance = 64 << 20

// TestHostileDocuments has one `sync` meet a few hundred Sources, each bad in one way, between two sound ones, and holds
// what comes of each against the tables.
func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	h := newHostileRun(t)
	sound := pages{"/list.xml": {body: resourceList(entries("/r/a", "/r/b"))}}
	h.add(badSource{name: "sound, first", pages: sound, want: fine(2)})
	for _, table := range hostileTables() {
		for _, bad := range table {
			h.add(bad)
		}
	}
	h.add(badSource{name: "sound, last", pages: sound, want: fine(2)})

	h.mostlySound()
	wrong := h.judge()
	h.outside()
	modest(t, h.peak)
	t.Logf("%d hostile Sources: %d not as expected, %d MiB taken", len(h.sites)-2, wrong, h.peak>>20)
}

// TestHostileEntries is TestHostileDocuments for single entries: dates, hashes, lengths, shapes and names. Hundreds of them
// stand in one list, between sound ones, and none may cost another.
func TestHostileEntries(t *testing.T) {
	t.Parallel()
	h := newHostileRun(t)
	tables := hostileEntries()
	for _, table := range tables {
		h.add(badSource{name: table.name, pages: pages{"/list.xml": {body: table.fill()}}})
	}
	h.mostlySound()
	rows, wrong := 0, 0
	for i, table := range tables {
		states := h.states(i)
		h.mirrored(i)
		for _, sound := range []string{"/r/first", "/r/last"} {
			if got := states[h.sites[i].URL+sound]; got != present {
				t.Errorf("%s: the sound entry %s is %q", table.name, sound, got)
			}
		}
		for n, row := range table.rows {
			rows++
			if got := h.stateOf(i, states, row.at(n)); got != row.want {
				wrong++
				t.Errorf("%s: %.200s became %s, want %s", table.name, row.at(n), got, row.want)
			}
		}
	}
	h.outside()
	modest(t, h.peak)
	t.Logf("%d hostile entries: %d not as expected, %d MiB taken", rows, wrong, h.peak>>20)
}

// TestHostileAfterwards has the same documents come in place of a sound list that was mirrored before: nothing that was
// mirrored is lost over them, and no deletion is even planned (F58, F66).
func TestHostileAfterwards(t *testing.T) {
	t.Parallel()
	h := newHostileRun(t)
	for _, bad := range hostileDocuments() {
		if bad.want.says == "truncated" {
			continue // asked for again and again; the others say it faster
		}
		bad.want.files = 3
		h.add(bad)
	}
	for _, s := range h.sites {
		s.calm.Store(true)
	}
	if code := h.sync(); code != exit.Done {
		t.Fatalf("exit code %d before anything was wrong:\n%s", code, h.err.String())
	}
	for _, s := range h.sites {
		s.calm.Store(false)
	}
	if code := h.sync(); code != exit.Owed && code != exit.Failed {
		t.Errorf("exit code %d afterwards", code)
	}
	wrong := h.judge()
	h.outside()
	t.Logf("%d hostile documents in place of a mirrored list: %d not as expected", len(h.sites), wrong)
}

// hostileRun is a place with a data folder, a canary tree all around it, and the Sources of a run.
type hostileRun struct {
	t      *testing.T
	dir    string
	canary map[string]string
	// program is resyncd, and more a variable that it is given.
	program, more string
	// dumps is what the configuration says of them.
	dumps string

	sites []*site
	allow string // CIDRs of network.allow
	out   bytes.Buffer
	err   bytes.Buffer
	peak  int64 // of the memory of a command
}

func newHostileRun(t *testing.T) *hostileRun {
	t.Helper()
	h := &hostileRun{t: t, dir: t.TempDir(), program: "resyncd", more: "TERM=dumb", dumps: "auto"}
	for _, name := range []string{"a", "place/a", "place/etc/passwd", "place/data.txt", "place/data/canary", "place/mirror.txt"} {
		path := filepath.Join(h.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("a canary at "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.canary = h.around()
	return h
}

// data is the data folder, in the midst of the canary tree.
func (h *hostileRun) data() string { return filepath.Join(h.dir, "place", "data") }

func (h *hostileRun) add(bad badSource) {
	h.t.Helper()
	h.sites = append(h.sites, serveBad(h.t, bad))
}

// name is the name of the i-th Source.
func (*hostileRun) name(i int) string { return fmt.Sprintf("s%03d", i) }

// sync writes the configuration and catches all up.
func (h *hostileRun) sync() (code int) {
	h.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "data_dir: %s\nmirror: %s\nnetwork: { idle_timeout: 1s, retry_for: 0s, allow: [%s] }\n", h.data(), filepath.Join(h.data(), "mirror"), h.allow)
	b.WriteString("callback: { listen: 127.0.0.1:0, base_url: \"http://127.0.0.1:0/cb\" }\nconsole: { listen: \"\" }\n")
	fmt.Fprintf(&b, "defaults: { durability: none, max_resource: 1MiB, schedule: \"@daily\", dumps: %s }\nsources:\n", h.dumps)
	for i, s := range h.sites {
		start := s.bad.start
		if start == "" {
			start = "/list.xml"
		}
		fmt.Fprintf(&b, "  - { name: %s, url: %q }\n", h.name(i), s.URL+start)
	}
	if err := os.WriteFile(h.config(), []byte(b.String()), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return h.command("sync", "--quiet", "--json", "--log-format", "json")
}

// mostlySound is a sync of which something must fail and something must not.
func (h *hostileRun) mostlySound() {
	h.t.Helper()
	if code := h.sync(); code != exit.Owed {
		h.t.Errorf("exit code %d, want %d", code, exit.Owed)
	}
}

// modest: a process took no more memory than it may (P8).
func modest(t *testing.T, peak int64) {
	t.Helper()
	most := int64(2 * memoryAllowance)
	if flagOfBuild("-race") != "" {
		most *= 6
	}
	if peak > most {
		t.Errorf("%d MiB were taken, at most %d are allowed", peak>>20, most>>20)
	}
}

func (h *hostileRun) env() []string { return []string{"HOME=" + h.dir, h.more} }

func (h *hostileRun) config() string { return filepath.Join(h.dir, "resyncd.yaml") }

// command runs one command line; what it writes is in out and err.
func (h *hostileRun) command(verb string, args ...string) int {
	h.out.Reset()
	h.err.Reset()
	e, err := run(h.t.Context(), slices.Concat([]string{h.program, verb, "--config", h.config()}, args), h.env(), &h.out, &h.err)
	if err != nil {
		h.t.Fatal(err)
	}
	h.peak = max(h.peak, e.peak)
	return e.code
}

// judge holds each Source against its row and tells how many are not as they should be.
func (h *hostileRun) judge() (wrong int) {
	t := h.t
	results := map[string]fate{}
	dec := json.NewDecoder(&h.out)
	for dec.More() {
		var r struct {
			Source              string
			InStep              bool `json:"in_step"`
			Owed, Refused, Held int64
		}
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		results[r.Source] = fate{inStep: r.InStep, owed: r.Owed, refused: r.Refused, held: r.Held}
	}
	said := map[string]string{}
	for line := range strings.Lines(h.err.String()) {
		for i := range h.sites {
			if name := h.name(i); strings.Contains(line, name) {
				said[name] += line
			}
		}
	}
	for i, s := range h.sites {
		name := h.name(i)
		got := results[name]
		got.files = h.mirrored(i)
		if want := s.bad.want; got.String() != want.String() || !strings.Contains(said[name], want.says) {
			wrong++
			t.Errorf("%s: %v, want %v and %q in what is said:\n%s", s.bad.name, got, want, want.says, said[name])
		}
	}
	return wrong
}

// states are the states of a Source's resources by URI, as `ls` tells them.
func (h *hostileRun) states(i int) map[string]string {
	h.t.Helper()
	all := map[string]string{}
	for _, filter := range []string{"--json", "--refused"} {
		if code := h.command("ls", "--json", filter, h.name(i)); code != exit.Done {
			h.t.Fatalf("ls %s: exit code %d: %s", filter, code, h.err.String())
		}
		dec := json.NewDecoder(&h.out)
		for dec.More() {
			var l struct{ URI, State string }
			if err := dec.Decode(&l); err != nil {
				h.t.Fatal(err)
			}
			all[l.URI] = l.State
		}
	}
	return all
}

// stateOf is what became of an entry: the state of the resource that its loc names, skipped where there is none.
func (h *hostileRun) stateOf(i int, states map[string]string, entry string) string {
	var parsed struct {
		Loc string `xml:"loc"`
	}
	if err := xml.Unmarshal([]byte("<x "+nsOfBoth+">"+h.sites[i].at(entry)+"</x>"), &struct {
		URL any `xml:"url"`
	}{&parsed}); err != nil {
		h.t.Errorf("%s: %v", entry, err)
	}
	base, err := url.Parse(h.sites[i].URL + "/list.xml")
	if err != nil {
		h.t.Fatal(err)
	}
	loc := strings.TrimSpace(parsed.Loc)
	if state, ok := states[loc]; ok {
		return state
	}
	if u, err := base.Parse(loc); err == nil && states[u.String()] != "" {
		return states[u.String()]
	}
	return skipped
}

// mirrored counts the files of a Source's mirror, each of which must be a body that the Source published whole (P2).
func (h *hostileRun) mirrored(i int) (n int) {
	h.t.Helper()
	root := filepath.Join(h.data(), "mirror", h.name(i))
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err) && path == root:
			return fs.SkipAll
		case err != nil:
			return err
		case d.IsDir() && path == filepath.Join(root, ".resyncd"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is a %s", path, d.Type())
		}
		n++
		b, err := os.ReadFile(path)
		if err == nil && !h.sites[i].published(b) {
			h.t.Errorf("%s: %s holds what was never published: %.80q", h.sites[i].bad.name, path, b)
		}
		return err
	})
	if err != nil {
		h.t.Error(err)
	}
	return n
}

// around hashes everything but the data folder's own files.
func (h *hostileRun) around() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	mine := []string{h.config()}
	for _, name := range []string{"mirror", mirror.StateFile, "serve.lock", "callback.url"} {
		mine = append(mine, filepath.Join(h.data(), name))
	}
	err := filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.ContainsFunc(mine, func(m string) bool { return strings.HasPrefix(path, m) }) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			all[path] = "folder"
			return nil
		}
		b, err := os.ReadFile(path)
		all[path] = fmt.Sprintf("%v %x", d.Type(), sha256.Sum256(b))
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// outside insists that nothing changed around the data folder, and that the mirror holds nothing but the Sources' folders.
func (h *hostileRun) outside() {
	h.t.Helper()
	if diff := cmp.Diff(h.canary, h.around()); diff != "" {
		h.t.Errorf("something was written outside the mirror (-before +after):\n%s", diff)
	}
	folders, err := os.ReadDir(filepath.Join(h.data(), "mirror"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range folders {
		if len(f.Name()) != 4 || f.Name()[0] != 's' {
			h.t.Errorf("the mirror holds %s", f.Name())
		}
	}
}
