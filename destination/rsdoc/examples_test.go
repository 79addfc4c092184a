package rsdoc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func examplesDir(t *testing.T) string {
	dir := os.Getenv("RESYNCD_SPEC_EXAMPLES")
	if dir == "" {
		t.Skip("RESYNCD_SPEC_EXAMPLES does not name the folder of the specification's examples")
	}
	return dir
}

func example(t *testing.T, name string) document {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(examplesDir(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return mustRead(t, string(b), Options{})
}

// Every example is read whole, with the kind its text says; the HTML ones are refused.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(examplesDir(t), "*", "*.xml"))
	if err != nil || len(files) < 130 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	refused := map[string]bool{
		"v0_9/resourcesync_ex_9_4.xml": true, "v0_9_1/resourcesync_ex_4_1.xml": true, "http/resourcesync_ex_9.xml": true,
	}
	noKind := map[string]bool{
		"notification_0_9/notification_ex_1.xml": true, "notification_0_9/notification_ex_2.xml": true,
		"notification_0_9/notification_ex_3.xml": true,
	}
	for _, f := range files {
		name := filepath.ToSlash(filepath.Join(filepath.Base(filepath.Dir(f)), filepath.Base(f)))
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		doc := string(b)
		for way, d := range readings(doc, Options{}) {
			switch {
			case refused[name]:
				if problemOf(d.Err) != WrongRoot {
					t.Errorf("%s, %s: error %v, want the wrong root", name, way, d.Err)
				}
				continue
			case d.Err != nil || d.Skipped != 0:
				t.Errorf("%s, %s: error %v, skipped %s", name, way, d.Err, d.First)
			case (d.Head.Kind == KindUnknown) != noKind[name] || d.Head.HasMD == noKind[name]:
				t.Errorf("%s, %s: kind %q", name, way, d.Head.Kind)
			case (d.Head.Shape == Index) != strings.Contains(doc, "<sitemapindex"):
				t.Errorf("%s, %s: shape %d", name, way, d.Head.Shape)
			}
			if want := strings.Count(doc, "<loc>"); len(d.Entries) != want {
				t.Errorf("%s, %s: %d entries, want %d", name, way, len(d.Entries), want)
			}
		}
	}
}

// Kinds, times and counts of documents whose text states them.
func TestExampleHeads(t *testing.T) {
	t.Parallel()
	cases := []struct {
		file    string
		shape   Shape
		kind    Kind
		at      string
		from    string
		until   string
		entries int
		up      string
	}{
		{"v1_1/resourcesync_ex_12.xml", List, KindDescription, "", "", "", 3, ""},
		{"v1_1/resourcesync_ex_13.xml", List, KindCapabilityList, "", "", "", 4, "http://example.com/resourcesync_description.xml"},
		{"v1_1/resourcesync_ex_14.xml", List, KindResourceList, "2013-01-03T09:00:00Z", "", "", 2, "http://example.com/dataset1/capabilitylist.xml"},
		{"v1_1/resourcesync_ex_15.xml", Index, KindResourceList, "2013-01-03T09:00:00Z", "", "", 3, "http://example.com/dataset1/capabilitylist.xml"},
		{"v1_1/resourcesync_ex_17.xml", List, KindResourceDump, "2013-01-03T09:00:00Z", "", "", 3, "http://example.com/dataset1/capabilitylist.xml"},
		{"v1_1/resourcesync_ex_18.xml", List, KindResourceDumpManifest, "2013-01-03T09:00:00Z", "", "", 2, "http://example.com/dataset1/capabilitylist.xml"},
		{"v1_1/resourcesync_ex_19.xml", List, KindChangeList, "", "2013-01-03T00:00:00Z", "", 4, "http://example.com/dataset1/capabilitylist.xml"},
		{"v1_1/resourcesync_ex_20.xml", Index, KindChangeList, "", "2013-01-01T00:00:00Z", "", 3, "http://example.com/dataset1/capabilitylist.xml"},
		{"v1_1/resourcesync_ex_21.xml", List, KindChangeList, "", "2013-01-02T00:00:00Z", "2013-01-03T00:00:00Z", 4, "http://example.com/dataset1/capabilitylist.xml"},
		{"v1_1/resourcesync_ex_23.xml", List, KindChangeDumpManifest, "", "2013-01-02T00:00:00Z", "2013-01-03T00:00:00Z", 4, "http://example.com/dataset1/capabilitylist.xml"},
		{"v1_0/archives_ex_6_1.xml", List, KindChangeDumpArchive, "", "", "", 2, "http://example.com/dataset1/capabilitylist.xml"},
		{"notification_1_0_1/change_notification_ex_1.xml", List, KindChangeNotification, "", "2013-01-03T00:00:00Z", "2013-01-03T00:10:00Z", 2, "http://example.com/dataset1/capabilitylist.xml"},
		{"notification_1_0_1/framework_notification_ex_1.xml", List, KindFrameworkNotification, "", "", "", 1, "http://example.com/dataset1/capabilitylist.xml"},
		// 0.9: from in place of at, and "up" leads to the index.
		{"v0_9/resourcesync_ex_4_3.xml", List, KindResourceList, "2013-01-03T09:00:00Z", "2013-01-03T09:00:00Z", "", 2, "http://example.com/dataset1/resourcelist-index.xml"},
	}
	for _, c := range cases {
		d := example(t, c.file)
		h := d.Head
		up, _ := h.Link(RelUp)
		if h.Shape != c.shape || h.Kind != c.kind || h.At.String() != c.at || h.From.String() != c.from ||
			h.Until.String() != c.until || len(d.Entries) != c.entries || up.Href != c.up {
			t.Errorf("%s: up %q, %s", c.file, up.Href, dump(d))
		}
	}
}

// The oddities that the examples' README names.
func TestExampleOddities(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"v1_1/resourcesync_ex_14.xml", "v1_1/resourcesync_ex_18.xml", "notification_1_0_1/change_notification_ex_1.xml"} {
		e := example(t, file).Entries[1]
		if len(e.Digests) != 2 || e.Digests[0].Alg != SHA256 || e.Digests[1].Alg != MD5 || e.BadDigests != 0 {
			t.Errorf("%s: two digests with a line break are %v, %d bad", file, e.Digests, e.BadDigests)
		}
	}
	for _, file := range []string{"v1_0/resourcesync_ex_27.xml", "v1_1/resourcesync_ex_27.xml"} {
		// Of the four values only one is base64url of 32 bytes.
		d := example(t, file)
		a, b := d.Entries[0], d.Entries[1]
		if len(a.Digests) != 0 || a.BadDigests != 1 || len(a.Links[0].Digests) != 0 || len(b.Digests) != 1 ||
			b.BadDigests != 0 || len(b.Links[0].Digests) != 0 || a.Links[0].Rel != RelPatch {
			t.Errorf("%s: %s", file, dump(d))
		}
	}
	ex19 := example(t, "v1_1/resourcesync_ex_19.xml")
	first, last := ex19.Entries[0], ex19.Entries[3]
	if ex19.Head.Until.Known() || first.LastMod >= ex19.Head.From || last.Datetime.Known() || last.LastMod.Known() || last.Change != ChangeUpdated {
		t.Errorf("example 19: %s", dump(ex19))
	}
	ex23 := example(t, "v1_1/resourcesync_ex_23.xml").Entries
	if ex23[0].Loc != ex23[3].Loc || ex23[0].Path == ex23[3].Path || ex23[2].Change != ChangeDeleted || ex23[2].Path != "" {
		t.Errorf("example 23: %v", ex23)
	}
	var mirrors []Link
	for _, l := range example(t, "v1_1/resourcesync_ex_24.xml").Entries[0].Links {
		if l.Rel == RelDuplicate {
			mirrors = append(mirrors, l)
		}
	}
	if len(mirrors) != 3 || mirrors[0].Pri != 1 || mirrors[2].Pri != 3 || !strings.HasPrefix(mirrors[2].Href, "gsiftp:") {
		t.Errorf("example 24: %v", mirrors)
	}
	ex29 := example(t, "v1_1/resourcesync_ex_29.xml").Entries[0]
	found := false
	for _, l := range ex29.Links {
		found = found || l.Rel == "memento" && l.Modified.String() == "2013-01-02T18:00:00Z" && strings.Contains(l.Href, "20130103070000")
	}
	if !found {
		t.Errorf("example 29: %v", ex29.Links)
	}
	weeks := example(t, "v1_0/archives_ex_6_1.xml").Entries
	if a, b := weeks[0], weeks[1]; a.From > b.Until || b.From > a.Until { // they share an instant
		t.Errorf("archives example 6.1: %v", weeks)
	}
	old := example(t, "v0_9/resourcesync_ex_9_1.xml")
	if old.Head.Kind != KindDescription || old.Head.RawKind != "resourcesync" {
		t.Errorf("0.9 description: %s", dump(old))
	}
	parts := example(t, "v0_9/resourcesync_ex_7_1.xml").Entries
	if len(parts) != 3 || parts[0].Until < parts[2].Until {
		t.Errorf("0.9 dump packages are not newest first: %v", parts)
	}
	loc := example(t, "notification_1_0_1/framework_notification_ex_1.xml")
	if up, _ := loc.Head.Link(RelUp); !strings.Contains(loc.Entries[0].Loc, "/resourceset1/") || !strings.Contains(up.Href, "/dataset1/") {
		t.Errorf("framework example 1: %s", dump(loc))
	}
	hubs := example(t, "notification_1_0_1/change_notification_ex_7.xml").Entries
	found = false
	for _, e := range hubs {
		found = found || e.Capability == KindChangeNotification && len(e.Links) > 0 && e.Links[0].Rel == RelHub
	}
	if !found {
		t.Errorf("change notification example 7: no hub in %v", hubs)
	}
	// Every attribute at once, with foreign ones beside them.
	every := example(t, "v0_9_1/test_ex_3.xml").Entries[0]
	if every.BadDigests != 1 || every.Length != 1234 || every.Encoding != "gzip" || every.Path != "/res1" || every.Capability != KindResourceList ||
		!every.At.Known() || !every.Completed.Known() || !every.From.Known() || !every.Until.Known() || every.Links[0].Pri != 1 || every.Links[0].Path != "/res1" {
		t.Errorf("test example 3: %v", every)
	}
}
