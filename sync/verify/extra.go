package verify

import (
	"context"

	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/keymap"
)

// Keys are the keys of files.
func Keys(infos []blob.Info) []string {
	keys := make([]string, len(infos))
	for i := range infos {
		keys[i] = infos[i].Key
	}
	return keys
}

// extraBatch is how many files are looked up at a time.
const extraBatch = 1000

// Extra hands over files of a mirror that belong to no resource. Files of owed resources are left out and named beside:
// an interrupted run put them there.
func Extra(
	ctx context.Context, st store.Resources, m blob.Mirror, source int64,
	each func(extra []blob.Info, owed []int64) error,
) error {
	var batch []blob.Info
	flush := func() error {
		names := Keys(batch)
		if m.FoldsCase() {
			for i := range names {
				names[i] = keymap.FoldKey(names[i])
			}
		}
		owners, err := st.ByKeys(ctx, source, names)
		if err != nil {
			return err
		}
		extra, owed := batch[:0], []int64(nil)
		for i, info := range batch {
			switch o := owners[i]; {
			case o != nil && o.Have.State != store.HaveNone:
			case o != nil && o.Work.Action == store.ActionFetch && info.Kind == blob.KindFile:
				owed = append(owed, o.ID)
			default:
				extra = append(extra, info)
			}
		}
		if len(extra) > 0 || len(owed) > 0 {
			err = each(extra, owed)
		}
		batch = batch[:0]
		return err
	}
	err := m.Walk(ctx, func(i blob.Info) error {
		if batch = append(batch, i); len(batch) < extraBatch {
			return nil
		}
		return flush()
	})
	if err != nil || len(batch) == 0 {
		return err
	}
	return flush()
}
