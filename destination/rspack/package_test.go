package rspack

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// file is a member as archive/zip writes it.
type file struct {
	name   string
	data   string
	method uint16
}

// letters is text that deflate makes much smaller.
func letters(n int) string { return strings.Repeat("abcdefghij", n/10+1)[:n] }

// ordinary is a package with nothing wrong.
var ordinary = []file{
	{"manifest.xml", "<urlset/>", zip.Deflate},
	{"bad", letters(1000), zip.Deflate},
	{"good", letters(500), zip.Deflate},
	{"plain", letters(100), zip.Store},
	{"last", letters(200), zip.Store},
}

func pack(t testing.TB, files ...file) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, f := range files {
		m, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: f.method})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f.name, "/") {
			if _, err := io.WriteString(m, f.data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// find is where a record of a member begins.
func find(t testing.TB, b []byte, sig uint32, size int, name string) int {
	t.Helper()
	mark := le.AppendUint32(nil, sig)
	for at := bytes.Index(b, mark); at >= 0 && at+size <= len(b); {
		if bytes.HasPrefix(b[at+size:], []byte(name)) {
			return at
		}
		next := bytes.Index(b[at+1:], mark)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	t.Fatalf("%q is not in the package", name)
	return 0
}

func open(t testing.TB, b []byte) *Package {
	t.Helper()
	p, err := Open(bytes.NewReader(b), int64(len(b)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// holds has Find and both ways of reading bring a member.
func holds(t testing.TB, p *Package, name, data string) {
	t.Helper()
	m, err := p.Find(name)
	if err != nil {
		t.Error(err)
		return
	}
	if m.Length != int64(len(data)) {
		t.Errorf("%s has length %d, not %d", name, m.Length, len(data))
	}
	var got bytes.Buffer
	if n, err := p.Read(m, &got); err != nil || got.String() != data || n != int64(len(data)) {
		t.Errorf("%s: %d bytes, %v", name, n, err)
	}
	r, err := p.Reader(m)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != data {
		t.Errorf("%s: %d bytes as a stream, %v", name, len(b), err)
	}
}

// is holds an error to its cause and a part of its text.
func is(t testing.TB, err error, cause, text string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Cause() != cause || !strings.Contains(e.Error(), text) {
		t.Errorf("%v, not %s with %q", err, cause, text)
	}
}

// changes to a package: at an entry of the directory, at a member's own header, at the end record.
type change func(t testing.TB, b []byte) []byte

func entry(name string, at int, value ...byte) change {
	return func(t testing.TB, b []byte) []byte {
		copy(b[find(t, b, entrySig, entrySize, name)+at:], value)
		return b
	}
}

func header(name string, at int, value ...byte) change {
	return func(t testing.TB, b []byte) []byte {
		copy(b[find(t, b, headerSig, headerSize, name)+at:], value)
		return b
	}
}

func ending(at int, value ...byte) change {
	return func(_ testing.TB, b []byte) []byte {
		copy(b[len(b)-endSize+at:], value)
		return b
	}
}

// addTo adds to a field of 4 bytes of an entry.
func addTo(name string, at int, n int) change {
	return func(t testing.TB, b []byte) []byte {
		field := b[find(t, b, entrySig, entrySize, name)+at:]
		le.PutUint32(field, uint32(int(le.Uint32(field))+n))
		return b
	}
}

// atOf has a member begin where another does, and some bytes on.
func atOf(name, other string, on int) change {
	return func(t testing.TB, b []byte) []byte {
		le.PutUint32(b[find(t, b, entrySig, entrySize, name)+42:], uint32(find(t, b, headerSig, headerSize, other)+on))
		return b
	}
}

// extra puts an extra field into an entry.
func extra(name string, field ...byte) change {
	return func(t testing.TB, b []byte) []byte {
		at := find(t, b, entrySig, entrySize, name)
		have := le.Uint16(b[at+30:])
		le.PutUint16(b[at+30:], have+uint16(len(field)))
		b = slices.Insert(b, at+entrySize+len(name), field...) // before all others
		size := b[len(b)-endSize+12:]
		le.PutUint32(size, le.Uint32(size)+uint32(len(field)))
		return b
	}
}

// wide64 is an extra field of ZIP64.
func wide64(values ...uint64) []byte {
	b := le.AppendUint16([]byte{1, 0}, uint16(8*len(values)))
	for _, v := range values {
		b = le.AppendUint64(b, v)
	}
	return b
}

// zip64 writes the end of a package anew, in the long form and with nothing left in the short one.
func zip64(_ testing.TB, b []byte) []byte {
	e := slices.Clone(b[len(b)-endSize:])
	b = slices.Clip(b[:len(b)-endSize])
	at := uint64(len(b))
	b = le.AppendUint32(b, end64Sig)
	b = le.AppendUint64(b, end64Size-12)
	b = append(b, 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = le.AppendUint64(b, uint64(le.Uint16(e[8:])))
	b = le.AppendUint64(b, uint64(le.Uint16(e[10:])))
	b = le.AppendUint64(b, uint64(le.Uint32(e[12:])))
	b = le.AppendUint64(b, uint64(le.Uint32(e[16:])))
	b = le.AppendUint32(b, locatorSig)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, at)
	b = le.AppendUint32(b, 1)
	for i := 4; i < 20; i++ {
		e[i] = 0xff
	}
	return append(b, e...)
}

// ending64 changes the long form of the end.
func ending64(at int, value ...byte) change {
	return func(t testing.TB, b []byte) []byte {
		b = zip64(t, b)
		copy(b[len(b)-endSize-locatorSize-end64Size+at:], value)
		return b
	}
}

func both(all ...change) change {
	return func(t testing.TB, b []byte) []byte {
		for _, c := range all {
			b = c(t, b)
		}
		return b
	}
}

var ff4 = []byte{0xff, 0xff, 0xff, 0xff}

// TestMembers: what is wrong with one member is told of it, and costs no other.
func TestMembers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change change
		cause  string
		text   string
		gives  int      // bytes before it fails
		hit    []string // who fails too
	}{
		{name: "encrypted", change: entry("bad", 8, 9), cause: CauseRefused, text: "encrypted"},
		{name: "strongly encrypted", change: entry("bad", 8, 0x48), cause: CauseRefused, text: "encrypted"},
		{name: "hidden header", change: entry("bad", 8, 8, 0x20), cause: CauseRefused, text: "encrypted"},
		{name: "deflate64", change: entry("bad", 10, 9), cause: CauseRefused, text: "method"},
		{name: "AES", change: entry("bad", 10, 99), cause: CauseRefused, text: "method"},
		{name: "high method", change: entry("bad", 10, 8, 1), cause: CauseRefused, text: "method"},
		{name: "link", change: entry("bad", 38, 0, 0, 0xff, 0xa1), cause: CauseRefused, text: "link"},
		{name: "folder", change: entry("bad", 38, 0, 0, 0xff, 0x41), cause: CauseRefused, text: "folder"},
		{name: "DOS folder", change: entry("bad", 38, 0x10), cause: CauseRefused, text: "folder"},
		{name: "volume", change: entry("bad", 38, 8), cause: CauseRefused, text: "device"},
		{name: "device", change: entry("bad", 38, 0, 0, 0xff, 0x21), cause: CauseRefused, text: "device"},
		{name: "pipe", change: entry("bad", 38, 0, 0, 0xff, 0x11), cause: CauseRefused, text: "device"},
		{name: "socket", change: entry("bad", 38, 0, 0, 0xff, 0xc1), cause: CauseRefused, text: "device"},
		{name: "checksum", change: entry("bad", 16, 1, 2, 3, 4), cause: CauseWrong, text: "checksum", gives: 1000},
		{name: "no checksum", change: entry("bad", 16, 0, 0, 0, 0), cause: CauseWrong, text: "checksum", gives: 1000},
		{name: "bomb", change: entry("bad", 24, 100, 0), cause: CauseWrong, text: "more than 100 bytes", gives: 100},
		{name: "bomb of nothing", change: entry("bad", 24, 0, 0), cause: CauseWrong, text: "more than 0 bytes"},
		{name: "longer", change: addTo("bad", 24, 1), cause: CauseWrong, text: "unexpected EOF", gives: 1000},
		{name: "much longer", change: entry("bad", 24, 0xfe, 0xff, 0xff, 0xff), cause: CauseWrong, text: "EOF", gives: 1000},
		{name: "packed shorter", change: addTo("bad", 20, -1), cause: CauseWrong, text: "EOF", gives: 1000},
		{name: "packed away", change: entry("bad", 20, 0, 0), cause: CauseWrong, text: "EOF"},
		{name: "packed longer", change: addTo("bad", 20, 1), cause: CauseWrong, text: "their length", gives: 1000},
		{name: "packed into the next", change: addTo("bad", 20, 17), cause: CauseRefused, text: "shares"},
		{name: "packed well into the next", change: addTo("bad", 20, 20), cause: CauseRefused, text: "shares", hit: []string{"good"}},
		{name: "packed over all", change: addTo("bad", 20, 300), cause: CauseRefused, text: "shares", hit: []string{"good", "plain", "last"}},
		{name: "packed into the directory", change: addTo("bad", 20, 1<<16), cause: CauseRefused, text: "directory"},
		{name: "packed over 4 GiB", change: entry("bad", 20, 0xfe, 0xff, 0xff, 0xff), cause: CauseRefused, text: "directory"},
		{name: "broken data", change: header("bad", 33, 0xff, 0xff), cause: CauseWrong, text: "corrupt"},
		{name: "no header", change: header("bad", 0, 'p'), cause: CauseWrong, text: "begin"},
		{name: "header of another", change: header("bad", 30, 'g'), cause: CauseWrong, text: `"gad"`},
		{name: "header without a name", change: header("bad", 26, 0, 0, 3, 0), cause: CauseWrong, text: `""`},
		{name: "header with another method", change: header("bad", 8, 0), cause: CauseWrong, text: "method 0"},
		{name: "header into the next", change: header("bad", 28, 17), cause: CauseRefused, text: "shares"},
		{name: "header into the directory", change: header("bad", 28, 0xff, 0xff), cause: CauseRefused, text: "shares"},
		{name: "at another", change: atOf("bad", "good", 0), cause: CauseRefused, text: "shares", hit: []string{"good"}},
		{name: "in another", change: atOf("bad", "last", 40), cause: CauseRefused, text: "shares", hit: []string{"last"}},
		{name: "in the directory", change: entry("bad", 42, 0xff, 0xff), cause: CauseRefused, text: "directory"},
		{name: "behind 4 GiB", change: entry("bad", 42, 0xff, 0xff, 0xff, 0xfe), cause: CauseRefused, text: "directory"},
		{name: "stored with two lengths", change: both(entry("bad", 10, 0), header("bad", 8, 0), entry("bad", 24, 0, 0)), cause: CauseWrong, text: "more than 0"},
		{name: "ZIP64 that is not there", change: entry("bad", 24, ff4...), cause: CauseRefused, text: "directory"},
		{name: "ZIP64 that is cut", change: both(entry("bad", 42, ff4...), extra("bad", 1, 0, 8, 0, 1, 2)), cause: CauseRefused, text: "directory"},
		{name: "ZIP64 that is negative", change: both(entry("bad", 42, ff4...), extra("bad", wide64(1<<63)...)), cause: CauseRefused, text: "directory"},
		{name: "ZIP64 of less than nothing", change: both(entry("bad", 24, ff4...), extra("bad", wide64(1<<64-1)...)), cause: CauseRefused, text: "directory"},
		{name: "ZIP64 that wraps", change: both(entry("bad", 20, ff4...), extra("bad", wide64(1<<63-1)...)), cause: CauseRefused, text: "directory"},
		{
			name: "ZIP64 of a bomb", change: both(entry("bad", 24, ff4...), extra("bad", wide64(1<<62)...)),
			cause: CauseWrong, text: "EOF", gives: 1000,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := open(t, c.change(t, pack(t, ordinary...)))
			if p.Len() != len(ordinary) {
				t.Errorf("%d members", p.Len())
			}
			for _, f := range ordinary {
				switch _, err := p.Find(f.name); {
				case slices.Contains(c.hit, f.name):
					is(t, err, CauseRefused, "shares")
				case f.name != "bad":
					holds(t, p, f.name, f.data)
				}
			}
			m, err := p.Find("bad")
			var got bytes.Buffer
			if err == nil {
				_, err = p.Read(m, &got)
			}
			is(t, err, c.cause, c.text)
			is(t, err, c.cause, `"bad"`)
			if errors.Is(err, io.ErrUnexpectedEOF) != strings.Contains(err.Error(), "EOF") {
				t.Errorf("%v is not what it wraps", err)
			}
			if data := ordinary[1].data; got.Len() != c.gives || !strings.HasPrefix(data, got.String()) {
				t.Errorf("%d bytes were given, not %d", got.Len(), c.gives)
			}
			if r, err := p.Reader(m); err == nil {
				defer r.Close()
				b, err := io.ReadAll(r)
				is(t, err, c.cause, c.text)
				_, again := r.Read(make([]byte, 1))
				if !errors.Is(again, err) || len(b) != c.gives {
					t.Errorf("%d bytes and %v, then %v", len(b), err, again)
				}
			}
		})
	}
}

// TestNames: which member a path of a manifest means.
func TestNames(t *testing.T) {
	t.Parallel()
	files := []file{
		{name: "a b", data: "space"}, {name: "a%20b", data: "escaped"}, {name: "100%", data: "percent"}, {name: "dir/ä", data: "utf-8"},
		{name: "dir/\x84", data: "cp437"}, {name: "./dot", data: "dot"}, {name: "dir//x", data: "empty part"}, {name: "dir/..x", data: "dots"},
		{name: "twice", data: "1"}, {name: "twice", data: "2"}, {name: "twice", data: "3"}, {name: "once c", data: "c"},
		{name: "folder/"}, {name: "dir/manifest.xml", data: "below"},
		{name: ""}, {name: "/absolute"}, {name: "../up"}, {name: "dir/../../up"}, {name: "dir/.."}, {name: ".."}, {name: `dir\file`},
		{name: `..\up`}, {name: "c:file"}, {name: "C:/file"}, {name: "nul\x00.txt"}, {name: `\\host\share`}, {name: "//host/share"},
	}
	p := open(t, pack(t, files...))
	if p.Len() != len(files) {
		t.Errorf("%d members of %d", p.Len(), len(files))
	}
	for path, data := range map[string]string{
		"a b": "space", "/a b": "space", "a%20b": "escaped", "/a%20b": "escaped", "a%2520b": "escaped", "100%": "percent", "100%25": "percent",
		"dir/ä": "utf-8", "dir/%C3%A4": "utf-8", "dir/%84": "cp437", "dir/\x84": "cp437", "./dot": "dot", "dir//x": "empty part",
		"/dir/..x": "dots", "/once%20c": "c", "dir%2fmanifest.xml": "below",
	} {
		holds(t, p, path, data)
	}
	for path, cause := range map[string]string{
		"twice": CauseAmbiguous, "/twice": CauseAmbiguous, "twic%65": CauseAmbiguous, "folder/": CauseRefused,
		"A B": CauseMissing, "a+b": CauseMissing, "folder": CauseMissing, "//a b": CauseMissing, "dot": CauseMissing, "manifest.xml": CauseMissing,
		"": CauseMissing, "/": CauseMissing, "absolute": CauseMissing, "/absolute": CauseMissing, "//absolute": CauseMissing,
		"%2Fabsolute": CauseMissing, "../up": CauseMissing, "/../up": CauseMissing, "..%2Fup": CauseMissing, "%2e%2e/up": CauseMissing,
		"dir/../../up": CauseMissing, "dir/..": CauseMissing, "..": CauseMissing, `dir\file`: CauseMissing, "dir%5Cfile": CauseMissing,
		`..\up`: CauseMissing, "c:file": CauseMissing, "C:/file": CauseMissing, "nul\x00.txt": CauseMissing, "nul%00.txt": CauseMissing,
		`\\host\share`: CauseMissing, "//host/share": CauseMissing, "///host/share": CauseMissing, "%": CauseMissing,
		strings.Repeat("x", 1<<20): CauseMissing,
	} {
		m, err := p.Find(path)
		is(t, err, cause, "")
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
		if _, err := p.Read(m, io.Discard); err == nil {
			t.Errorf("%q was read", path)
		}
	}
	// A million of one name, asked for a million times, would take hours.
	if _, n := p.lookUp("twice"); n != 2 {
		t.Errorf("%d of one name were counted", n)
	}
	if _, err := p.Manifest(); err == nil {
		t.Error("a manifest below the top level was taken")
	}
	_, err := open(t, pack(t, ordinary[0], ordinary[1], ordinary[0])).Manifest()
	is(t, err, CauseAmbiguous, "manifest.xml")
	if m, err := open(t, pack(t, ordinary...)).Manifest(); err != nil || m.Length != 9 {
		t.Error(m, err)
	}
}

// TestForms: whatever a ZIP file may look like, its members are found.
func TestForms(t *testing.T) {
	t.Parallel()
	comment := func(text string) change {
		return func(_ testing.TB, b []byte) []byte {
			le.PutUint16(b[len(b)-2:], uint16(len(text)))
			return append(b, text...)
		}
	}
	short := func(t testing.TB, b []byte) []byte {
		plain := pack(t, ordinary...)
		return append(b[:len(b)-endSize], plain[len(plain)-endSize:]...)
	}
	empty := string(pack(t))
	for name, change := range map[string]change{
		"as it is":                     both(),
		"comment":                      comment("a comment"),
		"longest comment":              comment(letters(1<<16 - 1)),
		"comment with an end record":   comment("x" + empty + "x"),
		"comment with a whole package": comment(string(pack(t, file{name: "manifest.xml", data: "false"})) + "."),
		"ZIP64":                        zip64,
		"ZIP64 and a comment":          both(zip64, comment("a comment")),
		"ZIP64 beside the short form":  both(zip64, short),
		"ZIP64 of a length":            both(entry("bad", 24, ff4...), extra("bad", wide64(1000)...)),
		"ZIP64 of a place":             both(entry("manifest.xml", 42, ff4...), extra("manifest.xml", wide64(0)...)),
		"extra fields":                 extra("bad", 7, 0, 2, 0, 1, 2, 1, 0, 0, 0),
		"extra field that is cut":      extra("bad", 7, 0, 200, 0),
		"Unix file":                    entry("bad", 38, 0, 0, 0xff, 0x81),
		"DOS archive, read-only":       entry("bad", 38, 0x21),
		"flags of text and UTF-8":      entry("bad", 8, 8, 8),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, change(t, pack(t, ordinary...)))
			for _, f := range ordinary {
				holds(t, p, f.name, f.data)
			}
			if p.Len() != len(ordinary) {
				t.Errorf("%d members", p.Len())
			}
		})
	}
	// A directory before which nothing stands, and a member that would wrap to behind its end.
	alone := both(entry("bad", 42, ff4...), extra("bad", wide64(1<<63-1)...))(t, pack(t, ordinary...))
	alone = ending(16, 0, 0, 0, 0)(t, alone[find(t, alone, entrySig, entrySize, "manifest.xml"):])
	p := open(t, alone)
	for _, f := range ordinary {
		_, err := p.Find(f.name)
		is(t, err, CauseRefused, "directory")
	}
	if p := open(t, []byte(empty)); p.Len() != 0 {
		t.Errorf("%d members of none", p.Len())
	}
}

// TestPackages: which packages are refused as a whole, and why.
func TestPackages(t *testing.T) {
	t.Parallel()
	whole := pack(t, ordinary...)
	directory := find(t, whole, entrySig, entrySize, "manifest.xml")
	u32 := func(n int) []byte { return le.AppendUint32(nil, uint32(n)) }
	before := func(text string) change {
		return func(_ testing.TB, b []byte) []byte { return append([]byte(text), b...) }
	}
	becomes := func(text string) change { return func(testing.TB, []byte) []byte { return []byte(text) } }
	for _, c := range []struct {
		name   string
		change change
		cause  string
		text   string
	}{
		{"nothing", becomes(""), CauseDamaged, "no ZIP file"},
		{"text", becomes(letters(100_000)), CauseDamaged, "no ZIP file"},
		{"page", becomes("\n<!DOCTYPE html>\n<title>Not found</title>"), CausePage, "HTML"},
		{"old page", becomes("<HTML><BODY>" + letters(100_000)), CausePage, "HTML"},
		{"trailing", func(_ testing.TB, b []byte) []byte { return append(b, '\n') }, CauseDamaged, "goes on"},
		{"prefix", before("#!/bin/sh\n"), CauseDamaged, "cannot be"},
		{"prefix of a package", before(string(pack(t, file{name: "manifest.xml", data: "false"}))), CauseDamaged, "cannot be"},
		{"ZIP64 and a prefix", both(zip64, before("#!/bin/sh\n")), CauseDamaged, "cannot be"},
		{"no directory", func(_ testing.TB, b []byte) []byte { return b[len(b)-endSize:] }, CauseDamaged, "cannot be"},
		{"fewer members", ending(8, 4, 0, 4, 0), CauseDamaged, "broken after 4 of 4"},
		{"more members", both(ending(8, 6, 0, 6, 0), extra("bad", make([]byte, 50)...)), CauseDamaged, "after 5 of 6"},
		{"no members", ending(8, 0, 0, 0, 0), CauseDamaged, "broken after 0 of 0"},
		{"more members than fit", ending(8, 0xff, 0xff, 0xff, 0xff), CauseDamaged, "cannot be"},
		{"shorter directory", ending(12, u32(len(whole)-endSize-directory-1)...), CauseDamaged, "cannot be"},
		{"longer directory", ending(12, u32(len(whole)-endSize-directory+1)...), CauseDamaged, "cannot be"},
		{"directory before all", ending(12, u32(len(whole))...), CauseDamaged, "cannot be"},
		{"directory behind all", ending(16, u32(directory+1)...), CauseDamaged, "cannot be"},
		{"directory among members", both(ending(12, u32(len(whole)-endSize)...), ending(16, u32(0)...)), CauseDamaged, "broken after 0 of 5"},
		{"broken entry", entry("good", 0, 'p'), CauseDamaged, "broken after 2 of 5"},
		{"entry beyond the directory", entry("last", 32, 0xff, 0xff), CauseDamaged, "broken after 4 of 5"},
		{"name beyond the directory", entry("last", 28, 0xff, 0xff), CauseDamaged, "broken after 4 of 5"},
		{"second part", ending(4, 1), CauseDamaged, "several parts"},
		{"directory in another part", ending(6, 1), CauseDamaged, "several parts"},
		{"members in another part", ending(8, 4), CauseDamaged, "several parts"},
		{"false end in the comment", func(_ testing.TB, b []byte) []byte {
			e := slices.Clone(b[len(b)-endSize:])
			le.PutUint16(b[len(b)-2:], endSize)
			return append(b, e...)
		}, CauseDamaged, "cannot be"},
		{"ZIP64 of another signature", ending64(0, 'p'), CauseDamaged, "contradict"},
		{"ZIP64 of another size", ending64(4, 45), CauseDamaged, "contradict"},
		{"ZIP64 elsewhere", ending64(end64Size+8, 1), CauseDamaged, "contradict"},
		{"ZIP64 in another part", ending64(end64Size+4, 1), CauseDamaged, "several parts"},
		{"ZIP64 of a second part", ending64(16, 1), CauseDamaged, "several parts"},
		{"ZIP64 with a directory in another part", ending64(20, 1), CauseDamaged, "several parts"},
		{"ZIP64 with members in another part", ending64(24, 4), CauseDamaged, "several parts"},
		{"ZIP64 and other members", both(zip64, ending(10, 4, 0)), CauseDamaged, "contradict"},
		{"ZIP64 and another size", both(zip64, ending(12, 4, 0, 0, 0)), CauseDamaged, "contradict"},
		{"ZIP64 and another place", both(zip64, ending(16, 4, 0, 0, 0)), CauseDamaged, "contradict"},
		{"ZIP64 of endless members", ending64(24, slices.Repeat([]byte{0xff}, 16)...), CauseLimit, "18446744073709551615 members"},
		{"ZIP64 of many members", ending64(24, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8), CauseDamaged, "cannot be"},
		{"ZIP64 of an endless directory", ending64(40, slices.Concat(wide64(1 << 63)[4:], wide64(uint64(len(whole)-endSize) - 1<<63)[4:])...), CauseLimit, "9223372036854775808 bytes"},
		{"ZIP64 of a directory that wraps", ending64(40, slices.Concat(wide64(1000)[4:], wide64(uint64(len(whole)-endSize) - 1000)[4:])...), CauseDamaged, "cannot be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := c.change(t, slices.Clone(whole))
			_, err := Open(bytes.NewReader(b), int64(len(b)), Limits{})
			is(t, err, c.cause, c.text)
			is(t, err, c.cause, "refused package: it")
		})
	}
	// Wherever a package is cut, also where a member is a package itself.
	outer := pack(t, file{name: "inner.zip", data: string(whole)}, ordinary[0])
	for _, b := range [][]byte{whole, zip64(t, slices.Clone(whole)), outer} {
		for n := range b {
			_, err := Open(bytes.NewReader(b[:n]), int64(n), Limits{})
			is(t, err, CauseDamaged, "")
			_, err = Open(bytes.NewReader(b[:n]), int64(len(b)), Limits{})
			is(t, err, CauseDamaged, "ends before")
		}
	}
}
