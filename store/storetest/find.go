package storetest

import (
	"fmt"
	"strings"
	"testing"

	"resyncd/store"
)

func testFind(t *testing.T, fresh Fresh) {
	b := newBench(t, fresh)
	two := b.ensureSet(b.claim, "two")
	uris := []string{
		"https://a.example/x", "https://a.example/x/1", "https://a.example/X/2", "https://a.example/100%25_a",
		"https://a.example/100a",
		`https://a.example/back\slash`, "https://a.example/q?[a-z]*", "https://a.example/Übung",
		"https://b.example/?u=https://a.example/x",
		"tag:löwe", "tag:l\xff", "zzz",
	}
	var rs []store.ResourceChange
	for _, u := range uris {
		w, other := present(1), absent(2)
		w.SetID, other.SetID = b.set.ID, two.ID
		rs = append(rs, store.ResourceChange{URI: u, Want: &w}, store.ResourceChange{URI: u, Want: &other})
	}
	b.put(rs...)
	_, claim, _ := b.source("other")
	b.ok(b.st.Commit(b.ctx, &store.Commit{Claim: claim, Resources: []store.ResourceChange{{URI: "https://a.example/x"},
		{URI: "https://a.example/other"}}}))
	for _, c := range []struct {
		text  string
		limit int
		want  []int
		more  bool // than that
	}{
		{"https://a.example/x", 9, []int{0, 1, 2, 8}, false}, // the exact one, what begins with it, others
		{"https://a.example/x", 3, []int{0, 1, 2}, true}, {"https://a.example/x", 2, []int{0, 1},
			true}, {"https://a.example/x", 1, []int{0}, true},
		{"zzz", 1, []int{11}, false}, {"zz", 1, []int{11}, false}, {"ZZ", 5, []int{11}, false}, {"zzzz", 5, nil, false},
		{"%", 9, []int{3}, false}, {"_", 9, []int{3}, false}, {`\`, 9, []int{5}, false}, {"*", 9, []int{6},
			false}, {"[a-z]", 9, []int{6}, false},
		{"a%a", 9, nil, false}, {"100_", 9, nil, false}, {`\%`, 9, nil, false}, {"'", 9, nil, false},
		{"übung", 9, nil, false}, {"ÜBUNG", 9, []int{7}, false}, {"Übung", 9, []int{7}, false}, // only ASCII is folded
		{"tag:l", 9, []int{9, 10}, false}, {"tag:l\xff", 9, []int{10}, false}, {"\xff", 9, []int{10}, false},
		{"a\x00", 9, nil, false}, {strings.Repeat("x", 9000), 9, nil, false}, {"", 0, nil, true}, {"zzz", -1, nil,
			true}, {"zzz", 1<<63 - 1, []int{11}, false},
	} {
		found, complete, err := b.st.Find(b.ctx, b.src.ID, c.text, c.limit)
		b.ok(err)
		var got []int
		for _, r := range found {
			for i, u := range uris {
				if r.URI == u {
					got = append(got, i)
				}
			}
			if len(r.Wants) != 2 || r.SourceID != b.src.ID {
				t.Errorf("%q: %+v", c.text, r)
			}
		}
		b.same(fmt.Sprintf("%q, %d", c.text, c.limit), c.want, got)
		if complete == c.more {
			t.Errorf("%q, %d: complete %t", c.text, c.limit, complete)
		}
	}
	all, complete, err := b.st.Find(b.ctx, b.src.ID, "", 100)
	if err != nil || !complete || len(all) != len(uris) || all[0].URI != uris[3] {
		t.Errorf("everything: %v, %t, %v", ids(all), complete, err)
	}
	if none, complete, err := b.st.Find(b.ctx, 1<<20, "x", 9); err != nil || !complete || len(none) != 0 {
		t.Errorf("of no source: %v, %t, %v", none, complete, err)
	}
	if _, complete, err = b.st.Find(b.ctx, b.src.ID, strings.Repeat("%", 60_000), 9); err != nil {
		t.Errorf("a very long text: %t, %v", complete, err)
	}
}
