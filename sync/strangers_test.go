package sync

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/inspect"
	"resyncd/sync/keymap"
	"resyncd/sync/transfer"
)

// textMirror is a mirror that holds texts by key.
type textMirror struct {
	blob.Mirror
	files  map[string]string
	broken error // of the file "broken"
	folds  bool
}

func (d *textMirror) FoldsCase() bool { return d.folds }

func (d *textMirror) Open(_ context.Context, key string) (blob.File, blob.Info, error) {
	if key == "broken" {
		return nil, blob.Info{}, d.broken
	}
	text, ok := d.files[key]
	if !ok {
		return nil, blob.Info{}, blob.ErrNotFound
	}
	return textFile{strings.NewReader(text)}, blob.Info{Key: key, Length: int64(len(text))}, nil
}

func (d *textMirror) Walk(_ context.Context, each func(blob.Info) error) error {
	for key := range d.files {
		kind := blob.KindFile
		if strings.HasSuffix(key, "link") {
			kind = blob.KindSymlink
		}
		if err := each(blob.Info{Key: key, Kind: kind}); err != nil {
			return err
		}
	}
	return nil
}

type textFile struct{ *strings.Reader }

func (textFile) Close() error { return nil }

// rowsByID are what the state knows, by id.
type rowsByID struct {
	store.Resources
	all   []*store.Resource
	folds bool
}

func (r *rowsByID) add(key, text string, action store.Action) {
	row := &store.Resource{ID: int64(len(r.all) + 1), URI: "http://lib.example/" + key, Key: key}
	if row.Work.Action = action; action == store.ActionNone {
		row.Have = store.Have{State: store.HavePresent, SHA256: sha256.Sum256([]byte(text)), Length: int64(len(text))}
	}
	r.all = append(r.all, row)
}

func (r *rowsByID) Scan(_ context.Context, q store.ScanQuery) ([]*store.Resource, error) {
	left := r.all[min(int(q.After), len(r.all)):]
	return left[:min(len(left), q.Limit)], nil
}

func (r *rowsByID) ByKeys(_ context.Context, _ int64, names []string) ([]*store.Resource, error) {
	out := make([]*store.Resource, len(names))
	for i, name := range names {
		for _, row := range r.all {
			key := row.Key
			if r.folds {
				key = keymap.FoldKey(key)
			}
			if key == name {
				out[i] = row
			}
		}
	}
	return out, nil
}

// TestCheckedFiles: each file that is not what its row says is found once, page after page, and the disk's own failure ends
// it.
func TestCheckedFiles(t *testing.T) {
	t.Parallel()
	st, m := &rowsByID{}, &textMirror{files: map[string]string{}, broken: blob.ErrIO}
	for i := range 2001 {
		key := fmt.Sprint(i)
		st.add(key, key, store.ActionNone)
		m.files[key] = key
	}
	st.add("broken", "", store.ActionNone)
	m.files["7"] = "x"
	delete(m.files, "1500")
	var found []string
	looked := 0
	page := func(n int, ps []*problem) error {
		looked += n
		for _, p := range ps {
			found = append(found, p.Problem+" "+*p.Key)
			if p.URI == nil || st.all[p.ID-1].Key != *p.Key || (p.Found == nil) != (p.Problem == inspect.ProblemMissing) {
				t.Errorf("%+v", p)
			}
		}
		return nil
	}
	examine := func() error {
		look := func(ctx context.Context, r *store.Resource) (*problem, error) { return check(ctx, m, r) }
		return transfer.Examine(t.Context(), st, store.ScanQuery{SourceID: 1}, look, page)
	}
	if err := examine(); err != nil || looked != len(st.all) {
		t.Errorf("%d looked at, %v", looked, err)
	}
	if want := []string{"changed 7", "missing 1500", "changed broken"}; !slices.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
	m.broken = blob.ErrBusy
	if err := examine(); !errors.Is(err, blob.ErrBusy) {
		t.Error(err)
	}
}

// TestStrangers: what lies in no resource's place is extra, also a link where a file is owed; a file that lies there is
// named by its resource. All of that is found by the names that the disk goes by.
func TestStrangers(t *testing.T) {
	t.Parallel()
	for _, folds := range []bool{false, true} {
		st, m := &rowsByID{folds: folds}, &textMirror{files: map[string]string{}, folds: folds}
		st.add("Mine", "", store.ActionNone)
		st.add("Owed", "", store.ActionFetch)
		st.add("Owed-link", "", store.ActionFetch)
		st.add("Mine-link", "", store.ActionNone)
		for _, row := range st.all {
			m.files[row.Key] = ""
		}
		for i := range 2*mendPage + 5 {
			m.files[fmt.Sprint("other", i)] = ""
		}
		extra := map[string]bool{}
		var owed []int64
		err := strangers(t.Context(), st, m, 1, func(infos []blob.Info, ids []int64) error {
			for _, key := range keysOf(infos) {
				extra[key] = true
			}
			owed = append(owed, ids...)
			return nil
		})
		if err != nil || len(extra) != 2*mendPage+6 || !extra["Owed-link"] || !slices.Equal(owed, []int64{2}) {
			t.Errorf("folds %t: %d extra, owed %v, %v", folds, len(extra), owed, err)
		}
		failing := func([]blob.Info, []int64) error { return io.ErrClosedPipe }
		if err := strangers(t.Context(), st, m, 1, failing); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	}
}
