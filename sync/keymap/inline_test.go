package keymap

import (
	"strings"
	"testing"

	"resyncd/destination/fuzztest"
	"resyncd/store"
)

func TestEntryKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ feed, id, want string }{
		{"https://blog.example/feed.atom", "tag:blog.example,2024:1", "blog.example/feed.atom/tag%3Ablog.example,2024%3A1.xml"},
		{"https://blog.example/", "1", "blog.example/1.xml"},
		{"https://blog.example/feed/", "1", "blog.example/feed/1.xml"},
		{"https://blog.example:8443/?feed=rss2", "https://blog.example/?p=1", "blog.example_8443/%index%qfeed=rss2/https%3A%2F%2Fblog.example%2F%3Fp=1.xml"},
		{"https://blog.example/f", "..", "blog.example/f/%2E%2E.xml"},
		{"https://blog.example/f", "", "blog.example/f/%z.xml"},
	} {
		if got, err := EntryKey(c.feed, c.id); err != nil || got != c.want {
			t.Errorf("entry %q of %s: %q, %v, want %q", c.id, c.feed, got, err, c.want)
		}
	}
	if got, err := RecordKey("https://records.example/feeds/delta", "paho.org/HealthC_ID/1"); err != nil ||
		got != "records.example/feeds/delta/records/paho.org%2FHealthC_ID%2F1.json" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := EntryKey("not a URL", "1"); err == nil {
		t.Errorf("got %q", got)
	}
}

// FuzzEntryKey: any id becomes one component below its feed's folder, and different ids never end in one file.
func FuzzEntryKey(f *testing.F) {
	f.Add("tag:a,2024:1", "tag:a,2024:2")
	f.Add("../../x", "%2e%2e/%2e%2e/x")
	f.Add(strings.Repeat("a/", 500), strings.Repeat("a/", 501))
	f.Add("\x00\xff", "CON")
	f.Fuzz(func(t *testing.T, a, b string) {
		fuzztest.Bound(t)
		const feed = "https://blog.example/feed.atom"
		var naturals []string
		for _, id := range []string{a, b} {
			key, err := EntryKey(feed, id)
			if err != nil {
				t.Fatal(err)
			}
			leaf, ok := strings.CutPrefix(key, "blog.example/feed.atom/")
			if !ok || strings.Contains(leaf, "/") || len(leaf) > segmentLimit || len(key) > keyLimit || !strings.HasSuffix(leaf, ".xml") {
				t.Fatalf("id %q: key %q", id, key)
			}
			naturals = append(naturals, key)
		}
		free := func(names []string) ([]store.NameUse, error) { return make([]store.NameUse, len(names)), nil }
		keys, err := Assign(false, []string{a, b}, naturals, free)
		if err != nil || (a != b) != (keys[0] != keys[1]) {
			t.Fatalf("ids %q and %q: keys %q, %v", a, b, keys, err)
		}
	})
}
