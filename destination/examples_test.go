package destination

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/rsdoc"
)

// examples are the documents of the specifications, with our own address in place of theirs.
func examples(t *testing.T, folder string) map[string]page {
	t.Helper()
	dir := os.Getenv("RESYNCD_SPEC_EXAMPLES")
	if dir == "" {
		t.Skip("RESYNCD_SPEC_EXAMPLES is not set: no examples of the specification")
	}
	files, err := filepath.Glob(filepath.Join(dir, folder, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples in %s: %v", filepath.Join(dir, folder), err)
	}
	hosts := strings.NewReplacer("http://www.example.com", "SITE", "http://example.com", "SITE")
	pages := map[string]page{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		pages["/"+filepath.Base(f)] = xml(hosts.Replace(string(b)))
	}
	return pages
}

// Every document of every version is discovered for what it is, and every list of them is walked.
func TestExamples(t *testing.T) {
	t.Parallel()
	type counts map[string]int
	core := func(more counts) counts {
		all := counts{
			"Capability List": 3, "Change Dump": 1, "Change List": 14, "Change List Index": 1, "Resource Dump": 2, "Resource List": 4,
			"Resource List Index": 2, "Source Description": 2, "Change Dump Manifest": 1,
			"Resource Dump Manifest": 2,
			"walked changedump":      1, "walked changelist": 15, "walked resourcedump": 2, "walked resourcelist": 6,
		}
		maps.Copy(all, more)
		maps.DeleteFunc(all, func(_ string, n int) bool { return n == 0 })
		return all
	}
	archives := counts{"Change Dump Archive": 1, "Change List Archive": 1, "Resource Dump Archive": 1, "Resource List Archive": 1,
		"Resource List Archive Index": 1}
	page := counts{"a page that links to /dataset1/capabilitylist.xml": 1}
	with := func(all ...counts) counts {
		sum := counts{}
		for _, c := range all {
			maps.Copy(sum, c)
		}
		return core(sum)
	}
	want := map[string]counts{
		"v1_1":   core(counts{"Capability List": 2, "Change List": 13, "walked changelist": 14}),
		"v1_0":   with(archives),
		"v0_9_1": with(archives, page, counts{"Resource List": 6, "Resource List Index": 3, "walked resourcelist": 9}),
		"v0_9": with(archives, page, counts{"Resource List Archive Index": 0, "Change List": 12, "Change List Index": 0,
			"walked changelist": 12}),
	}
	for folder := range want {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, examples(t, folder))
			r := testReader(t, nil)
			count := counts{}
			for _, doc := range slices.Sorted(maps.Keys(s.pages)) {
				o, err := Discover(t.Context(), r, s.URL+doc)
				count[strings.ReplaceAll(o.Trail[0].Result, s.URL, "")]++
				if err != nil {
					if _, ok := errors.AsType[*Error](err); !ok {
						t.Errorf("%s: %v", doc, err)
					}
					continue
				}
				for _, set := range o.Sets {
					for _, k := range []rsdoc.Kind{rsdoc.KindResourceList, rsdoc.KindChangeList, rsdoc.KindResourceDump, rsdoc.KindChangeDump} {
						if ref := *set.refField(k); ref != nil && set.Bare {
							tour, err := r.Walk(t.Context(), *ref, k, &log{quiet: true})
							if err != nil || tour.Root == nil && tour.Lists != 1 || tour.Root != nil && len(tour.Root.Entries) != tour.Failed {
								t.Errorf("%s as %s: %+v, %v", doc, k, tour, err)
							}
							count["walked "+string(k)]++
						}
					}
				}
			}
			if diff := cmp.Diff(want[folder], count); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The three ways in, as the specification's own examples show them [6.3].
func TestExamplesOfDiscovery(t *testing.T) {
	t.Parallel()
	headers, robots, html := "/resourcesync_ex_10.http", "/resourcesync_ex_11.http", "/resourcesync_ex_9.xml"
	http := examples(t, "http")
	for how, pages := range map[string]map[string]page{
		"html-link":   {"/": http[html]},
		"link-header": {"/": {body: "hello", header: map[string]string{"Link": linkOf(http[headers].body)}}},
		"robots":      {"/robots.txt": http[robots]},
	} {
		pages["/dataset1/capabilitylist.xml"] = xml(urlset(rootMD(`capability="capabilitylist"`) + capability("/dataset1/resourcelist.xml", "resourcelist")))
		pages["/dataset1/resourcelist.xml"] = examples(t, "v1_1")["/resourcesync_ex_14.xml"]
		s := newSite(t, pages)
		o, err := Discover(t.Context(), testReader(t, nil), s.URL)
		want := []string{"/dataset1/capabilitylist.xml " + how + " resourcelist=/dataset1/resourcelist.xml"}
		if diff := cmp.Diff(want, shown(s, o)); diff != "" || err != nil {
			t.Errorf("%s: %s%v", how, diff, err)
		}
	}
}

// linkOf is the folded Link header of an example of HTTP.
func linkOf(answer string) string {
	_, rest, _ := strings.Cut(answer, "Link:")
	value, _, _ := strings.Cut(rest, "...")
	return strings.Join(strings.Fields(value), " ")
}
