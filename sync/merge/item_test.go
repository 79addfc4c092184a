package merge

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"resyncd/store"
)

// TestMergeItem is the table of what an entry does to the row of its key.
func TestMergeItem(t *testing.T) {
	t.Parallel()
	const limit, now = 1000, 900_000_000
	present := func(at store.Micros, digest string) Candidate {
		return Candidate{State: store.WantPresent, Version: store.Version{From: at, Until: at}, Digests: digest, Length: -1}
	}
	absent := func(at store.Micros) Candidate {
		return Candidate{State: store.WantAbsent, Version: store.Version{From: at, Until: at}, Length: -1}
	}
	row := func(c Candidate, pushed store.Micros) *store.Want {
		w := c.Want(1)
		if pushed != 0 {
			at := pushed.Time()
			w.Meta = ItemMeta{Pushed: &at}.String()
		}
		return &w
	}
	const recently, longAgo = now - 1e6, now - 2*FeedLag
	shown := ItemFrom{Now: now, Limit: limit, Shown: 100}
	feed, push, sure := ItemFrom{Now: now, Limit: limit, Shown: store.NoTime}, ItemFrom{Pushed: true, Now: now, Limit: limit, Shown: store.NoTime}, ItemFrom{Uncached: true, Now: now, Limit: limit, Shown: store.NoTime}
	for name, c := range map[string]struct {
		row  *store.Want
		c    Candidate
		from ItemFrom
		want Decision
	}{
		"new":                                  {nil, present(5, "a"), feed, Replace},
		"tombstone of nothing":                 {nil, absent(5), push, Replace},
		"same":                                 {row(present(5, "a"), 0), present(5, "a"), feed, Repeat},
		"same, later":                          {row(present(5, "a"), 0), present(6, "a"), feed, Replace},
		"newer":                                {row(present(5, "a"), 0), present(6, "b"), push, Replace},
		"older, feed":                          {row(present(5, "a"), 0), present(4, "b"), feed, Ignore},
		"older, push":                          {row(present(5, "a"), 0), present(4, "b"), push, Ignore},
		"same date, feed":                      {row(present(5, "a"), 0), present(5, "b"), feed, Replace},
		"same date, push":                      {row(present(5, "a"), 0), present(5, "b"), push, Ask},
		"undated both, feed":                   {row(present(store.NoTime, "a"), 0), present(store.NoTime, "b"), feed, Replace},
		"undated both, push":                   {row(present(store.NoTime, "a"), 0), present(store.NoTime, "b"), push, Ask},
		"undated, feed":                        {row(present(5, "a"), 0), present(store.NoTime, "b"), feed, Replace},
		"undated, push":                        {row(present(5, "a"), 0), present(store.NoTime, "b"), push, Ask},
		"dated at last":                        {row(present(store.NoTime, "a"), 0), present(5, "b"), push, Replace},
		"deleted":                              {row(present(5, "a"), 0), absent(6), push, Replace},
		"deleted at once":                      {row(present(5, "a"), 0), absent(5), feed, Replace},
		"deleted before":                       {row(present(5, "a"), 0), absent(4), feed, Ignore},
		"the dead, of before":                  {row(absent(5), 0), present(5, "a"), feed, Ignore},
		"the dead, anew":                       {row(absent(5), 0), present(6, "a"), push, Replace},
		"undated after its end, older page":    {row(absent(5), 0), present(store.NoTime, "a"), feed, Ignore},
		"undated after its end":                {row(absent(5), 0), present(store.NoTime, "a"), shown, Replace},
		"undated before its end":               {row(absent(500), 0), present(store.NoTime, "a"), shown, Ignore},
		"undated, pushed after its end":        {row(absent(5), 0), present(store.NoTime, "a"), push, Ask},
		"the end of an undated one":            {row(present(store.NoTime, "a"), 0), absent(5), shown, Replace},
		"future corrected":                     {row(present(5000, "a"), 0), present(7, "b"), feed, Replace},
		"future against push":                  {row(present(5000, "a"), 0), present(7, "b"), push, Ignore},
		"confirmed":                            {row(present(5, "a"), recently), present(5, "a"), feed, Replace},
		"feed behind push":                     {row(present(5, "a"), recently), present(4, "b"), feed, Ignore},
		"feed still behind push":               {row(present(5, "a"), longAgo), present(4, "b"), feed, Ask},
		"feed against push, past caches":       {row(present(5, "a"), longAgo), present(4, "b"), sure, Replace},
		"feed against deletion":                {row(absent(5), longAgo), present(4, "b"), feed, Ask},
		"feed against deletion, past caches":   {row(absent(5), longAgo), present(4, "b"), sure, Replace},
		"feed against its own":                 {row(present(5, "a"), 0), present(4, "b"), shown, Ask},
		"feed against its own, past caches":    {row(present(5, "a"), 0), present(4, "b"), sure, Replace},
		"an old copy against what came since":  {row(present(500, "a"), 0), present(4, "b"), shown, Ignore},
		"the dead, shown again":                {row(absent(5), 0), present(5, "a"), shown, Ask},
		"an old end, past caches":              {row(present(5, "a"), 0), absent(4), sure, Ignore},
		"an archive, nothing believed":         {row(present(5, "a"), 0), present(4, "b"), ItemFrom{Full: true, Now: now, Limit: limit, Shown: store.NoTime}, Ask},
		"feed against a late push, uncached":   {row(present(5, "a"), recently), present(4, "b"), sure, Ignore},
		"an old tombstone against the revival": {row(present(5, "a"), 0), absent(store.NoTime), push, Ask},
	} {
		if got := MergeItem(c.row, c.c, c.from); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestMergeItemAnyOrder: dated entries of one feed end the same in any order and repetition.
func TestMergeItemAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "entries")
		var all []Candidate
		for i := range n {
			c := Candidate{State: store.WantPresent, Version: store.Version{From: store.Micros(i + 1), Until: store.Micros(i + 1)}, Digests: string(rune('a' + i))}
			if rapid.Bool().Draw(t, "gone") {
				c.State, c.Digests = store.WantAbsent, ""
			}
			all = append(all, c)
		}
		from := ItemFrom{Now: store.MicrosOf(time.Now()), Limit: 1000}
		fold := func(order []Candidate) (w store.Want) {
			for _, c := range order {
				from.Pushed = rapid.Bool().Draw(t, "pushed")
				row := &w
				if MergeItem(row, c, from) == Replace {
					w = c.Want(1)
				}
			}
			w.Meta = ""
			return w
		}
		order := append(rapid.Permutation(all).Draw(t, "order"), rapid.SliceOfN(rapid.SampledFrom(all), 0, 5).Draw(t, "again")...)
		if got, want := fold(order), fold(all); got.State != want.State || got.Version != want.Version || got.Digests != want.Digests {
			t.Fatalf("%+v, in order %+v", got, want)
		}
	})
}
