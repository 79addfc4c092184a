package blobtest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"resyncd/store/blob"
)

// version is a text that shows when it is cut or mixed: one number, many times, in a length that
// depends on it.
func version(n int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%08d\n", n)), 1+n%700)
}

// whole reports whether text is one version, and which.
func whole(text []byte) (int, bool) {
	if len(text) < 9 {
		return 0, false
	}
	n, err := strconv.Atoi(string(text[:8]))
	return n, err == nil && bytes.Equal(text, version(n))
}

// torn has readers sample a few keys while they are replaced: every read is one whole version, and for one reader the
// versions of a key never fall (P2, P6).
func torn(t *testing.T, m blob.Mirror) {
	const keys, rounds = 3, 60
	key := func(i int) string { return fmt.Sprintf("d/%d", i%keys) }
	for i := range keys {
		put(t, m, key(i), string(version(0)))
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			last := make([]int, keys)
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				f, info, err := m.Open(t.Context(), key(i))
				if err != nil {
					t.Errorf("Open: %v", err)
					return
				}
				text, err := io.ReadAll(f)
				f.Close()
				n, ok := whole(text)
				if err != nil || !ok || int64(len(text)) != info.Length {
					t.Errorf("torn: %d bytes of %+v, %v", len(text), info, err)
					return
				}
				if n < last[i%keys] {
					t.Errorf("version fell from %d to %d", last[i%keys], n)
					return
				}
				last[i%keys] = n
			}
		})
	}
	for n := 1; n <= rounds; n++ {
		var group []blob.Placement
		for i := range keys {
			p := blob.Placement{Stage: staged(t, m, string(version(n))), Key: key(i)}
			if n%5 == 0 {
				p.Displace = blob.NewTrashID(time.Now())
			}
			group = append(group, p)
		}
		errs, err := m.Place(t.Context(), group)
		if err != nil || errs[0] != nil || errs[1] != nil || errs[2] != nil {
			t.Fatal(errs, err)
		}
	}
	close(done)
	readers.Wait()
}

// manyAtOnce has several goroutines place, read and remove below folders that come and go.
func manyAtOnce(t *testing.T, m blob.Mirror) {
	const workers, rounds = 4, 15
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for r := range rounds {
				own, text := fmt.Sprintf("x/y/%d", w), fmt.Sprintf("%d of %d", r, w)
				group := []blob.Placement{{Stage: staged(t, m, text), Key: own},
					{Stage: staged(t, m, text), Key: "x/y/z/shared"}}
				errs, err := m.Place(t.Context(), group)
				if err != nil || errs[0] != nil || errs[1] != nil {
					t.Errorf("Place: %v, %v", errs, err)
					return
				}
				if got, err := get(t, m, own); err != nil || got != text {
					t.Errorf("%s = %q, %v; want %q", own, got, err, text)
					return
				}
				if err := m.Remove(t.Context(), []string{own, "x/y/z/shared"})[0]; err != nil {
					t.Errorf("Remove: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	m.Remove(t.Context(), []string{"x/y/z/shared"})
	same(t, "files", tree(t, m), map[string]string{})
}

// empty takes everything out of a mirror.
func empty(t testing.TB, m blob.Mirror) {
	t.Helper()
	for id := range trashed(t, m) {
		if err := m.DropTrash(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range m.Remove(t.Context(), slices.Collect(maps.Keys(tree(t, m)))) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// model compares random calls with maps, on one mirror that is empty at the begin of each round.
func model(t *testing.T, m blob.Mirror) {
	keys := rapid.SampledFrom([]string{"a", "b", "f/a", "f/b", "f/g/a", "h/a", "h/i/j/k"})
	rapid.Check(t, func(rt *rapid.T) {
		empty(t, m)
		files, trash, next := map[string]string{}, map[string]string{}, 0
		id := func() string { next++; return fmt.Sprintf("id-%d", next) }
		someID := func(rt *rapid.T) string {
			return rapid.SampledFrom(append(slices.Sorted(maps.Keys(trash)), "none")).Draw(rt, "id")
		}
		check := func(rt *rapid.T, what string, err, cause error) {
			if cause == nil && err == nil {
				return
			}
			if cause == nil || err == nil {
				rt.Fatalf("%s: %v, want %v", what, err, cause)
			}
			wantErr(t, what, err, cause)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"place": func(rt *rapid.T) {
				var group []blob.Placement
				for _, key := range rapid.SliceOfN(keys, 1, 12).Draw(rt, "keys") {
					text := rapid.StringN(0, 20, 40).Draw(rt, "text")
					p := blob.Placement{Stage: staged(t, m, text), Key: key}
					if rapid.Bool().Draw(rt, "displace") {
						p.Displace = id()
						if old, ok := files[key]; ok {
							trash[p.Displace] = old
						}
					}
					files[key] = text
					group = append(group, p)
				}
				errs, err := m.Place(t.Context(), group)
				check(rt, "Place", err, nil)
				for i, err := range errs {
					check(rt, "Place "+group[i].Key, err, nil)
					if _, ok := trash[group[i].Displace]; ok != group[i].Displaced {
						rt.Fatalf("Displaced = %v", group[i].Displaced)
					}
				}
			},
			"trash": func(rt *rapid.T) {
				key, id := keys.Draw(rt, "key"), id()
				var cause error
				if old, ok := files[key]; ok {
					trash[id] = old
					delete(files, key)
				} else {
					cause = blob.ErrNotFound
				}
				check(rt, "Trash", m.Trash(t.Context(), []blob.TrashItem{{Key: key, ID: id}})[0], cause)
			},
			"remove": func(rt *rapid.T) {
				batch := rapid.SliceOfN(keys, 1, 10).Draw(rt, "keys")
				for i, err := range m.Remove(t.Context(), batch) {
					var cause error
					if _, ok := files[batch[i]]; !ok {
						cause = blob.ErrNotFound
					}
					delete(files, batch[i])
					check(rt, "Remove "+batch[i], err, cause)
				}
			},
			"restore": func(rt *rapid.T) {
				id, key := someID(rt), keys.Draw(rt, "key")
				_, there := trash[id]
				_, taken := files[key]
				var cause error
				switch {
				case !there:
					cause = blob.ErrNotFound
				case taken:
					cause = blob.ErrExists
				default:
					files[key] = trash[id]
					delete(trash, id)
				}
				check(rt, "Restore", m.Restore(t.Context(), id, key), cause)
			},
			"drop": func(rt *rapid.T) {
				id := someID(rt)
				var cause error
				if _, ok := trash[id]; !ok {
					cause = blob.ErrNotFound
				}
				delete(trash, id)
				check(rt, "DropTrash", m.DropTrash(t.Context(), id), cause)
			},
			"": func(*rapid.T) {
				same(t, "files", tree(t, m), files)
				same(t, "trash", trashed(t, m), trash)
			},
		})
	})
}
