package merge

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"

	"resyncd/store"
)

func at(m store.Micros, document, ordinal int64) store.Version {
	return store.Version{From: m, Until: m, Document: document, Ordinal: ordinal}
}

func TestSatisfied(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("x"))
	sha, other := "sha-256:"+hex.EncodeToString(sum[:]), "sha-256:"+hex.EncodeToString(make([]byte, 32))
	file := store.Have{State: store.HavePresent, SHA256: sum, Length: 1, Checked: "md5:aa", Version: at(10, 1, 3)}
	want := func(digests string, length int64, v store.Version) store.Want {
		return store.Want{State: store.WantPresent, Digests: digests, Length: length, Version: v, LastMod: store.NoTime}
	}
	kept := file
	kept.State = store.HaveKept
	tests := []struct {
		name string
		want store.Want
		have store.Have
		out  Answer
	}{
		{"no file", want("", -1, at(10, 1, 3)), store.Have{}, No},
		{"sha-256 equal", want(sha, 1, at(99, 2, 0)), file, Yes},
		{"sha-256 equal, no length", want(sha, -1, at(99, 2, 0)), file, Yes},
		{"sha-256 equal, length differs", want(sha, 2, at(99, 2, 0)), file, No},
		{"sha-256 differs", want(other, 1, at(10, 1, 3)), file, No},
		{"sha-256 decides over md5", want(other+" md5:aa", 1, at(10, 1, 3)), file, No},
		{"md5 equal", want("md5:aa", 1, at(99, 2, 0)), file, Yes},
		{"md5 differs", want("md5:ab", 1, at(10, 1, 3)), file, No},
		{"never compared by this", want("sha-1:cc", 1, at(99, 2, 0)), file, HashLocally},
		{"the strongest counts", want("sha-512:dd "+sha+" md5:aa", 1, at(99, 2, 0)), file, HashLocally},
		{"never compared, length differs", want("sha-1:cc", 2, at(99, 2, 0)), file, No},
		{"no digest, same version", want("", -1, at(10, 1, 3)), file, Yes},
		{"no digest, file newer", want("", -1, at(9, 2, 0)), file, Yes},
		{"no digest, file newer in the document", want("", -1, at(10, 1, 2)), file, Yes},
		{"no digest, want newer", want("", -1, at(11, 2, 0)), file, No},
		{"no digest, want newer in the document", want("", 1, at(10, 1, 4)), file, No},
		{"no digest, same instant elsewhere", want("", -1, at(10, 2, 0)), file, Yes},
		{"no digest, range around it", want("", -1, store.Version{From: 5, Until: 15, Document: 2}), file, No},
		{"no digest, length differs", want("", 2, at(10, 1, 3)), file, No},
		{"contested", store.Want{State: store.WantAsk, Length: -1}, file, No},
		{"contested, no file", store.Want{State: store.WantAsk, Length: -1}, store.Have{}, No},
		{"absent, file", store.Want{State: store.WantAbsent}, file, No},
		{"absent, no file", store.Want{State: store.WantAbsent}, store.Have{}, Yes},
		{"absent, kept", store.Want{State: store.WantAbsent}, kept, Yes},
		{"kept and wanted again", want(sha, 1, at(99, 2, 0)), kept, Yes},
	}
	for _, tt := range tests {
		if got := Satisfied(&tt.want, &tt.have); got != tt.out {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.out)
		}
	}
}

func TestCarryOver(t *testing.T) {
	t.Parallel()
	file := store.Have{State: store.HavePresent, Length: 5, Version: at(10, 1, 0)}
	old := store.Want{State: store.WantPresent, Version: at(10, 1, 0), Length: -1, LastMod: 7}
	next := store.Want{State: store.WantPresent, Version: at(20, 1, 0), Length: 5, LastMod: 7, Generation: 2}
	if !CarryOver(&old, &next, &file) {
		t.Fatal("an unchanged resource is asked for again")
	}
	for name, change := range map[string]func(o, n *store.Want, h *store.Have){
		"digest given":      func(_, n *store.Want, _ *store.Have) { n.Digests = "md5:aa" },
		"lastmod unknown":   func(o, n *store.Want, _ *store.Have) { o.LastMod, n.LastMod = store.NoTime, store.NoTime },
		"lastmod differs":   func(_, n *store.Want, _ *store.Have) { n.LastMod = 8 },
		"length differs":    func(_, n *store.Want, _ *store.Have) { n.Length = 6 },
		"a change":          func(_, n *store.Want, _ *store.Have) { n.Generation = 0 },
		"contested":         func(_, n *store.Want, _ *store.Have) { n.State = store.WantAsk },
		"was absent":        func(o, _ *store.Want, _ *store.Have) { o.State = store.WantAbsent },
		"no file":           func(_, _ *store.Want, h *store.Have) { *h = store.Have{} },
		"old was owed":      func(o, _ *store.Want, _ *store.Have) { o.Version = at(15, 1, 0) },
		"old had other sum": func(o, _ *store.Want, _ *store.Have) { o.Digests = "sha-256:00" },
	} {
		o, n, h := old, next, file
		change(&o, &n, &h)
		if CarryOver(&o, &n, &h) {
			t.Errorf("%s: carried over", name)
		}
	}
	if CarryOver(nil, &next, &file) {
		t.Error("carried over from nothing")
	}
}

func TestEffective(t *testing.T) {
	t.Parallel()
	there := store.Want{SetID: 1, State: store.WantPresent, Version: at(10, 1, 0)}
	newer := store.Want{SetID: 2, State: store.WantPresent, Version: at(11, 2, 0)}
	ask := store.Want{SetID: 3, State: store.WantAsk, Version: at(12, 3, 0)}
	gone := store.Want{SetID: 4, State: store.WantAbsent, Version: at(90, 4, 0)}
	held := store.Want{SetID: 5, State: store.WantAbsent, Version: at(91, 5, 0), Held: true}
	refused := store.Want{SetID: 6, State: store.WantPresent, Version: at(99, 6, 0), Refused: "scope"}
	for _, tt := range []struct {
		name  string
		wants []store.Want
		set   int64 // of the effective want, 0 for none
	}{
		{"none", nil, 0},
		{"one", []store.Want{there}, 1},
		{"newest present", []store.Want{there, newer}, 2},
		{"newest contested", []store.Want{there, newer, ask}, 3},
		{"another set still wants it", []store.Want{gone, there}, 1},
		{"no set wants it", []store.Want{gone, {SetID: 7}}, 4},
		{"held", []store.Want{held}, 0},
		{"held by one set", []store.Want{held, gone}, 0},
		{"held, wanted by another", []store.Want{held, there}, 1},
		{"refused", []store.Want{refused}, 0},
		{"refused, wanted by another", []store.Want{refused, there}, 1},
		{"refused, gone in another", []store.Want{refused, gone}, 4},
	} {
		rapid.Check(t, func(rt *rapid.T) {
			w := Effective(rapid.Permutation(tt.wants).Draw(rt, "order"))
			if w == nil && tt.set != 0 || w != nil && w.SetID != tt.set {
				rt.Fatalf("%s: got %+v, want that of set %d", tt.name, w, tt.set)
			}
		})
	}
}
