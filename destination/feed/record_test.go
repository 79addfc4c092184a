package feed

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	edit := func(observed, author string, fields ...Field) *Edit {
		e := &Edit{Subject: "s", Author: author, Fields: fields}
		if observed != "" {
			e.Observed = at(observed)
		}
		return e
	}
	edits := []*Edit{
		edit("2026-01-02T00:00:00Z", "tel:+1", Field{"title", "Old"}, Field{"phone", "1"}, Field{"beds", "3"}),
		edit("2026-01-03T00:00:00Z", "tel:+2", Field{"title", "New <é>"}, Field{"phone", ""}),
		edit("2026-01-01T00:00:00Z", "tel:+3", Field{"title", "Late"}, Field{"email", "a@x.example"}),
		edit("2026-01-03T00:00:00Z", "tel:+1", Field{"title", "Same time, lesser author"}),
		edit("2026-01-03T00:00:00Z", "tel:+2", Field{"title", "A lesser value"}),
		edit("", "", Field{"title", "whenever"}, Field{"note", "kept"}),
		{Subject: "other", Observed: at("2030-01-01T00:00:00Z"), Fields: []Field{{"title", "not of this record"}}},
	}
	edits = append(edits, edits[0], edits[2])
	const want = `{
  "subject": "s",
  "observed": "2026-01-03T00:00:00Z",
  "edits": 6,
  "fields": {
    "beds": {
      "value": "3",
      "observed": "2026-01-02T00:00:00Z",
      "author": "tel:+1"
    },
    "email": {
      "value": "a@x.example",
      "observed": "2026-01-01T00:00:00Z",
      "author": "tel:+3"
    },
    "note": {
      "value": "kept",
      "observed": null,
      "author": null
    },
    "phone": {
      "value": "",
      "observed": "2026-01-03T00:00:00Z",
      "author": "tel:+2"
    },
    "title": {
      "value": "New <é>",
      "observed": "2026-01-03T00:00:00Z",
      "author": "tel:+2"
    }
  }
}
`
	r := Merge("s", edits)
	if d := cmp.Diff(want, string(r.JSON())); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	var back Record
	if err := json.Unmarshal(r.JSON(), &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, &back); d != "" {
		t.Errorf("read back (-want +got)\n%s", d)
	}
	if got := string(Merge("nobody", nil).JSON()); got != "{\n  \"subject\": \"nobody\",\n  \"observed\": null,\n  \"edits\": 0,\n  \"fields\": {}\n}\n" {
		t.Errorf("no edits: %s", got)
	}
}

func drawEdit(t *rapid.T) *Edit {
	e := &Edit{
		Subject: rapid.SampledFrom([]string{"s", "s", "s", "other"}).Draw(t, "subject"),
		Author:  rapid.SampledFrom([]string{"", "tel:+1", "tel:+2"}).Draw(t, "author"),
	}
	if n := rapid.IntRange(0, 4).Draw(t, "observed"); n > 0 {
		e.Observed = time.Unix(int64(n), 0).UTC()
	}
	for _, name := range []string{"a", "b", "c"} {
		if rapid.Bool().Draw(t, name) {
			e.Fields = append(e.Fields, Field{name, rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value")})
		}
	}
	return e
}

// Whatever the order and the repetition, a record is what the edits, applied in the order of their times, make of it.
func TestMergeLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		edits := rapid.SliceOfN(rapid.Custom(drawEdit), 0, 12).Draw(t, "edits")
		want := string(Merge("s", edits).JSON())

		shuffled := rapid.Permutation(edits).Draw(t, "order")
		if len(edits) > 0 {
			shuffled = append(shuffled, rapid.SliceOfN(rapid.SampledFrom(edits), 0, 6).Draw(t, "again")...)
		}
		stored := make([]*Edit, len(shuffled))
		for i, e := range shuffled {
			back, err := UnmarshalEdit(e.Marshal())
			if err != nil {
				t.Fatal(err)
			}
			stored[i] = back
		}
		if got := string(Merge("s", stored).JSON()); got != want {
			t.Fatalf("shuffled, repeated and stored:\n%s\n%s", want, got)
		}

		// The plain way: sort, then let each edit overwrite.
		fields := map[string]FieldState{}
		for _, name := range []string{"a", "b", "c"} {
			var said []FieldState
			for _, e := range edits {
				for _, f := range e.Fields {
					if e.Subject == "s" && f.Name == name {
						said = append(said, FieldState{f.Value, e.Observed, e.Author})
					}
				}
			}
			slices.SortFunc(said, func(a, b FieldState) int {
				if d := a.Observed.Compare(b.Observed); d != 0 {
					return d
				}
				if a.Author != b.Author {
					return map[bool]int{true: -1, false: 1}[a.Author < b.Author]
				}
				return map[bool]int{true: -1, false: 1}[a.Value < b.Value]
			})
			for _, f := range said {
				fields[name] = f
			}
		}
		if d := cmp.Diff(fields, Merge("s", edits).Fields); d != "" {
			t.Fatalf("(-want +got)\n%s", d)
		}
	})
}
