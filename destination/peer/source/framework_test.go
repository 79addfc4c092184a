package source

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/rsdoc"
)

// TestFrameworkNews follows what is told of lists: never an index, but the index beside its parts; nothing of a list that
// is new whenever it is asked for.
func TestFrameworkNews(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    Options
		want []string
	}{
		"one list, always fresh": {Options{}, nil},
		"parts": {Options{ListSize: 2, ListEvery: time.Second},
			[]string{"resourcelist created with index", "resourcelist created with index", "resourcelist created with index"}},
		"one list": {Options{ListEvery: time.Second}, []string{"resourcelist created", "resourcelist updated", "resourcelist updated"}},
		"closed lists": {Options{ChangeListSize: 2, ClosedLists: true, KeepChangeLists: 1, Archive: 1},
			[]string{"changelist created with index", "changelist created with index", "changelist-archive created",
				"capabilitylist updated", "changelist created with index", "changelist-archive updated",
				"changelist created with index", "changelist-archive updated"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := newScripted()
			c.o.Now = clock.now
			s := scriptedSource(t, c.o, &script{})
			s.framework.take() // the Capability List at the start
			var got []string
			for i := range 3 {
				for k := range 3 {
					mustPut(t, s, fmt.Sprint(k), fmt.Sprint(i))
					got = append(got, toldNews(t, s)...)
				}
				clock.forward(time.Minute)
				get(t, s, "/"+resourceList)
				get(t, s, "/"+resourceList)
				got = append(got, toldNews(t, s)...)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// toldNews takes the news that wait, in words, and sees whether they lead where they say.
func toldNews(t *testing.T, s *Source) (lines []string) {
	t.Helper()
	for s.framework.waiting() > 0 {
		for _, n := range s.framework.take().events {
			line := fmt.Sprint(n.document.kind, " ", n.kind)
			if n.index != "" {
				line += " with index"
				if index, _ := read(t, get(t, s, n.index)); index.Shape != rsdoc.Index || index.Kind != n.document.kind {
					t.Errorf("the index of %+v is a %s", n, index.Kind)
				}
			}
			if head, _ := read(t, get(t, s, n.loc)); head.Shape != rsdoc.List || head.Kind != n.document.kind {
				t.Errorf("%+v leads to a %s", n, head.Kind)
			}
			lines = append(lines, line)
		}
	}
	return lines
}
