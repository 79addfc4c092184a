package plan

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fuzztest"
	"resyncd/store"
	"resyncd/sync/merge"
	"resyncd/sync/spill"
)

var asEntries = cmp.AllowUnexported(Entry{})

// TestPackedWhole: every field of a Candidate comes through, also one that is added some day.
func TestPackedWhole(t *testing.T) {
	t.Parallel()
	e := Entry{URI: "http://lib.example/r", Baseline: true}
	n := int64(0)
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		n++
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case reflect.String:
			v.SetString(strings.Repeat("ü", int(n*50)))
		case reflect.Int64:
			v.SetInt(-n << 40)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Uint8:
			v.SetUint(uint64(n))
		default:
			t.Fatalf("an entry of a baseline is not packed with a %s", v.Type())
		}
	}
	fill(reflect.ValueOf(&e.Cand).Elem())
	e.Trusted, e.Hinted = true, true
	for what, e := range map[string]Entry{"full": e, "empty": {Baseline: true}, "unknown": {Baseline: true, Cand: merge.Candidate{
		Version: store.Version{From: store.NoTime, Until: store.NoTime}, Length: -1, LastMod: store.NoTime,
	}}} {
		record := pack([]byte("before"), &e)[len("before"):]
		got, err := unpack(record)
		if diff := cmp.Diff(e, got, asEntries); diff != "" || err != nil || string(spill.Key(record)) != e.URI {
			t.Errorf("%s: %v, URI %q (-packed +unpacked):\n%s", what, err, spill.Key(record), diff)
		}
		for end := range record {
			if _, err := unpack(record[:end]); !errors.Is(err, errPacked) {
				t.Errorf("%s, cut after %d bytes: %v", what, end, err)
			}
		}
		if _, err := unpack(append(record, 0)); !errors.Is(err, errPacked) {
			t.Errorf("%s, with more behind it: %v", what, err)
		}
	}
}

// FuzzPacked: what was packed comes back, and damaged records give an error or another entry, never a panic and never more
// memory than they have bytes.
func FuzzPacked(f *testing.F) {
	f.Add("http://lib.example/r", byte(1), int64(1e15), int64(7), "sha-256:00", "text/plain", "[]", []byte{})
	f.Add("", byte(0), int64(-1), int64(1)<<62, "", "", "", pack(nil, &Entry{URI: "u"}))
	f.Add("\xff\x00", byte(9), int64(0), int64(-1)<<63, " ", "\n", "ü", []byte{200, 1, 'a'})
	f.Fuzz(func(t *testing.T, uri string, state byte, at, n int64, digests, kind, links string, damaged []byte) {
		fuzztest.Bound(t)
		e := Entry{URI: uri, Baseline: true, Cand: merge.Candidate{
			State: store.WantState(state), Version: store.Version{From: store.Micros(at), Until: store.Micros(n), Ordinal: at, Document: n},
			Digests: digests, Length: n, LastMod: store.Micros(at), Type: kind, Links: links,
		}}
		if got, err := unpack(pack(nil, &e)); err != nil || got != e {
			t.Fatalf("%+v came back as %+v, %v", e, got, err)
		}
		got, err := unpack(damaged)
		switch {
		case err != nil && (!errors.Is(err, errPacked) || got != Entry{}):
			t.Fatalf("%+v, %v", got, err)
		case err != nil:
			return
		case string(spill.Key(damaged)) != got.URI:
			t.Fatalf("sorted by %q and unpacked as %q", spill.Key(damaged), got.URI)
		case len(got.URI)+len(got.Cand.Digests)+len(got.Cand.Type)+len(got.Cand.Links) > len(damaged):
			t.Fatalf("%+v out of %d bytes", got, len(damaged))
		}
		if again, err := unpack(pack(nil, &got)); err != nil || again != got {
			t.Fatalf("%+v came back as %+v, %v", got, again, err)
		}
	})
}
