package sync

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// A Resource List that carries no time is read again long after it was written, so that its A is past the end of a window of the
// Change List that was open when read.
func TestEvidenceWindowBeforeEstimate(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
	from, until := `from="`+when(0)+`"`, ` until="`+when(60)+`"`
	f.page("/rl.xml", list("resourcelist", "", f.res("/a", "a"), f.res("/b", "b")))
	f.page("/cl.xml", index("changelist", from, f.part("/c1.xml", from)))
	f.page("/c1.xml", list("changelist", from, f.changed("/b", "b", "updated", 5)))
	f.one(true)
	text := list("changelist", from+until, f.changed("/b", "b", "updated", 5), f.changed("/a", "a2", "updated", 10))
	f.page("/cl.xml", index("changelist", from, f.part("/c1.xml", from+until), f.part("/c2.xml", `from="`+when(60)+`"`)))
	f.page("/c1.xml", text)
	f.page("/c2.xml", list("changelist", `from="`+when(60)+`"`))
	f.all()
	f.holds(map[string]string{"/a": "a2", "/b": "b"})
}

// An index that dates its parts by the second, from a server that gives no Date, and our clock is ahead: that it is what it was
// says nothing of a part that changed in its second.
func TestEvidenceIndexWithoutDate(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	put := func(path, text string) {
		f.handle(path, func(w http.ResponseWriter, req *http.Request) {
			tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text)))
			w.Header()["Date"] = nil
			w.Header().Set("ETag", tag)
			if req.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			_, _ = io.WriteString(w, text)
		})
	}
	f.set("resourcelist", "/rl.xml")
	put("/rl.xml", plain("sitemapindex", f.smart("/p.xml", 0)))
	put("/p.xml", list("resourcelist", "", f.res("/a", "a1")))
	f.one(true)
	put("/p.xml", list("resourcelist", "", f.res("/a", "a2")))
	f.all()
	f.holds(map[string]string{"/a": "a2"})
}

// A Resource List without any time, entries that tell nothing of content, and two clocks: the server's is ahead of what writes the
// changes, or that is behind. What the Change List told only after its last reading is news by any clock.
func TestEvidenceTwoClocks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ ahead, changed time.Duration }{
		"the server is ahead":           {24 * time.Hour, -time.Minute},
		"what writes changes is behind": {0, -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			now := time.Now().UTC()
			put := func(path, text string) {
				f.handle(path, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Date", now.Add(tc.ahead).Format(http.TimeFormat))
					_, _ = io.WriteString(w, text)
				})
			}
			ts := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
			change := func(d time.Duration) string {
				return f.entry("/a", `change="updated" datetime="`+ts(d)+`"`)
			}
			f.set("resourcelist", "/rl.xml", "changelist", "/cl.xml")
			put("/a", "a1")
			put("/rl.xml", list("resourcelist", "", f.entry("/a", "")))
			put("/cl.xml", list("changelist", `from="`+ts(-3*time.Hour)+`"`, change(-2*time.Hour)))
			f.all()
			put("/a", "a2")
			put("/cl.xml", list("changelist", `from="`+ts(-3*time.Hour)+`"`, change(-2*time.Hour), change(tc.changed)))
			f.all()
			f.holds(map[string]string{"/a": "a2"})
		})
	}
}
