package console

import "testing"

// TestFetching: what is owed moves below the timeline only where all of it is shown and none of it has failed yet.
func TestFetching(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		owed []Item
		all  int64
		want bool
	}{
		"nothing":              {nil, 0, false},
		"under way":            {[]Item{{URI: "a"}, {URI: "b"}}, 2, true},
		"one was tried":        {[]Item{{URI: "a"}, {URI: "b", Attempts: 1}}, 2, false},
		"more than are listed": {[]Item{{URI: "a"}}, 2, false},
	} {
		body := sourceBody{SourceView: &SourceView{Row: Row{Owed: c.all}, Owed: c.owed}}
		if got := body.Fetching(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
