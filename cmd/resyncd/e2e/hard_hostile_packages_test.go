package e2e_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"resyncd/cmd/resyncd/internal/exit"
)

// hostilePackage is a Resource Dump of one package that is bad in one way, and how many of its five resources have to be
// asked for one by one.
type hostilePackage struct {
	name string
	// made is the package of a Source at base.
	made func(base string) string
	gets int
}

// packed is one member of a package that is made.
type packed struct {
	name, body string
	method     uint16
	mode       fs.FileMode
	flags      uint16
}

var packagedPaths = []string{"/r/a", "/r/b", "/r/c", "/r/d", "/r/e"}

// packageEntry is the entry of a resource in a list or, with the path of its member, in a manifest.
func packageEntry(base, resource, member, body string) string {
	path := ""
	if member != "" {
		path = fmt.Sprintf(" path=%q", member)
	}
	return fmt.Sprintf(`<url><loc>%s%s</loc><rs:md hash="sha-256:%x" length="%d"%s/></url>`, base, resource, sha256.Sum256([]byte(body)), len(body), path)
}

func packageMembers(base string) (members []packed) {
	manifest := root("urlset", `capability="resourcedump-manifest" at="2026-01-02T00:00:00Z"`)
	for i, resource := range packagedPaths {
		name := fmt.Sprintf("m/%d", i)
		manifest += packageEntry(base, resource, "/"+name, bodyOf(resource))
		members = append(members, packed{name: name, body: bodyOf(resource), method: zip.Deflate})
	}
	return append([]packed{{name: "manifest.xml", body: manifest + "</urlset>", method: zip.Deflate}}, members...)
}

func packageOf(members []packed) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: m.method, Flags: m.flags}
		if m.mode != 0 {
			h.SetMode(m.mode)
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(m.body))
		}
		if err != nil {
			panic(err) // a test that builds nonsense
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

// edited is a package whose members were changed before it was made.
func edited(edit func(base string, m []packed) []packed) func(string) string {
	return func(base string) string { return packageOf(edit(base, packageMembers(base))) }
}

// manifestOf is a package with another manifest.
func manifestOf(change func(manifest string) string) func(string) string {
	return edited(func(_ string, m []packed) []packed {
		m[0].body = change(m[0].body)
		return m
	})
}

// patched is a package of which the directory record of the member was changed; the record's fixed part has 46 bytes.
func patched(member string, change func(record []byte)) func(string) string {
	return func(base string) string {
		b := []byte(packageOf(packageMembers(base)))
		at := bytes.LastIndex(b, []byte(member)) - 46
		change(b[at : at+46])
		return string(b)
	}
}

func hostilePackages() []hostilePackage {
	crowd := func(string) string {
		var b bytes.Buffer
		record := append([]byte("PK\x01\x02"), make([]byte, 42)...)
		record[28] = 1 // the length of its name
		for range 200_000 {
			b.Write(record)
			b.WriteByte('x')
		}
		end := append([]byte("PK\x05\x06"), make([]byte, 18)...)
		binary.LittleEndian.PutUint16(end[8:], 1)
		binary.LittleEndian.PutUint16(end[10:], 1)
		binary.LittleEndian.PutUint32(end[12:], uint32(b.Len()))
		b.Write(end)
		return b.String()
	}
	return []hostilePackage{
		{"sound", func(base string) string { return packageOf(packageMembers(base)) }, 0},
		{"stored", edited(func(_ string, m []packed) []packed {
			for i := range m {
				m[i].method = zip.Store
			}
			return m
		}), 0},
		{"files that no manifest lists", edited(func(_ string, m []packed) []packed { return append(m, packed{name: "x", body: "y"}) }), 0},
		{"a page with status 200", func(string) string { return "<!DOCTYPE html><html><body>Log in</body></html>" }, 5},
		{"nothing", func(string) string { return "" }, 5},
		{"an empty ZIP", edited(func(string, []packed) []packed { return nil }), 5},
		{"cut", func(base string) string { z := packageOf(packageMembers(base)); return z[:len(z)/2] }, 5},
		{"bytes behind", func(base string) string { return packageOf(packageMembers(base)) + times("x", 70_000) }, 5},
		{"a directory of 200,000 members that tells of one", crowd, 5},
		{"no manifest", edited(func(_ string, m []packed) []packed { return m[1:] }), 5},
		{"a manifest in a folder", edited(func(_ string, m []packed) []packed { m[0].name = "x/manifest.xml"; return m }), 5},
		{"two manifests", edited(func(_ string, m []packed) []packed { return append(m, m[0]) }), 5},
		{"a manifest that is a page", manifestOf(func(string) string { return "<!DOCTYPE html><html></html>" }), 5},
		{"a manifest of another kind", manifestOf(func(m string) string { return strings.ReplaceAll(m, "resourcedump-manifest", "changelist") }), 5},
		{"a manifest that expands to 64 MiB of nothing", manifestOf(func(string) string { return times(" ", 64<<20) }), 5},
		{"a manifest with entities", manifestOf(func(m string) string { return `<!DOCTYPE x [<!ENTITY a "aaaaaaaa">]>` + m }), 5},
		{"a manifest that lists what is out of scope", manifestOf(func(m string) string {
			return strings.Replace(m, "</urlset>", `<url><loc>http://192.0.2.1/x</loc><rs:md path="/m/0"/></url><url><loc>file:///etc/passwd</loc><rs:md path="/m/0"/></url></urlset>`, 1)
		}), 0},
		{"a member is missing", edited(func(_ string, m []packed) []packed { return m[:len(m)-1] }), 1},
		{"a member with another body", edited(func(_ string, m []packed) []packed { m[3].body = "something else of the wrong length"; return m }), 1},
		{"a member with another body of the same length", edited(func(_ string, m []packed) []packed { m[3].body = times("x", len(m[3].body)); return m }), 1},
		{"a manifest that agrees with a wrong body", edited(func(base string, m []packed) []packed {
			wrong := "wrong, but declared so"
			m[0].body = strings.Replace(m[0].body, packageEntry(base, "/r/c", "/m/2", bodyOf("/r/c")), packageEntry(base, "/r/c", "/m/2", wrong), 1)
			m[3].body = wrong
			return m
		}), 1},
		{"a bomb", edited(func(_ string, m []packed) []packed { m[2].body = times("\x00", 64<<20); return m }), 1},
		{"a member that is encrypted", patched("m/1", func(r []byte) { r[8] |= 1 }), 1},
		{"a member of an unknown method", patched("m/1", func(r []byte) { r[10] = 99 }), 1},
		{"a member with a wrong checksum", patched("m/1", func(r []byte) { r[16] ^= 0xFF }), 1},
		{"a member that tells a wrong length", patched("m/1", func(r []byte) { r[24]++ }), 1},
		{"a member that begins where another one does", patched("m/1", func(r []byte) { copy(r[42:46], []byte{0, 0, 0, 0}) }), 5}, // that is the manifest
		{"a member twice", edited(func(_ string, m []packed) []packed { return append(m, packed{name: "m/1", body: "another"}) }), 1},
		{"a link", edited(func(_ string, m []packed) []packed {
			m[1].mode, m[1].body = fs.ModeSymlink|0o777, "/etc/passwd"
			return m
		}), 1},
		{"names that escape", edited(func(_ string, m []packed) []packed {
			for i, name := range []string{"../../../a", "..\\..\\..\\a", "C:\\a", "/../../a", "m/../../../a"} {
				m[0].body = strings.Replace(m[0].body, fmt.Sprintf(`path="/m/%d"`, i), fmt.Sprintf("path=%q", strings.ReplaceAll(name, `\`, "&#92;")), 1)
				m[i+1].name = name
			}
			return m
		}), -1},
		{"paths of the manifest that escape", manifestOf(func(m string) string {
			return strings.NewReplacer("/m/0", "/../../../etc/passwd", "/m/1", "../../a", "/m/2", "file:///etc/passwd", "/m/3", "%2e%2e/%2e%2e/a").Replace(m)
		}), 4},
	}
}

// TestHostilePackages has one `sync` meet Sources whose package is bad in one way each: it costs requests for what the package
// does not prove, never the run, and never a byte elsewhere (F77).
func TestHostilePackages(t *testing.T) {
	t.Parallel()
	h := newHostileRun(t)
	h.dumps = "always"
	all := hostilePackages()
	for _, bad := range all {
		h.add(badSource{name: bad.name, start: "/cap.xml", want: fine(len(packagedPaths)), pages: packagePages(bad.made)})
	}
	if code := h.sync(); code != exit.Done {
		t.Errorf("exit code %d: %s", code, h.err.String())
	}
	for _, s := range h.sites { // in its package
		for _, path := range packagedPaths {
			s.publish(bodyOf(path))
		}
	}
	h.judge()
	for i, bad := range all {
		if got := h.sites[i].gets; bad.gets >= 0 && got != bad.gets {
			t.Errorf("%s: %d resources were asked for one by one, want %d", bad.name, got, bad.gets)
		}
	}
	h.outside()
	modest(t, h.peak)
}

func packagePages(made func(base string) string) pages {
	offer := func(path, kind string) string {
		return "<url><loc>{base}" + path + `</loc><rs:md capability="` + kind + `"/></url>`
	}
	list := func(base string) string {
		var b strings.Builder
		for _, p := range packagedPaths {
			b.WriteString(packageEntry(base, p, "", bodyOf(p)))
		}
		return resourceList(b.String())
	}
	return pages{
		"/cap.xml":  {body: urlset(`capability="capabilitylist"`, offer("/list.xml", "resourcelist")+offer("/dump.xml", "resourcedump"))},
		"/list.xml": {made: list},
		"/dump.xml": {body: urlset(`capability="resourcedump" at="2026-01-02T00:00:00Z"`, `<url><loc>{base}/p.zip</loc><rs:md type="application/zip"/></url>`)},
		"/p.zip":    {header: []string{"Content-Type", "application/zip"}, made: made},
	}
}
