package sync

import (
	"context"
	"slices"

	"resyncd/store"
	"resyncd/sync/keymap"
)

// urisOf tells, aligned with keys, what resources files are that none owns: that of the key, known to the state though it has no
// file, else by the key itself. "" where that cannot be told.
func (s *session) urisOf(ctx context.Context, keys []string) ([]string, error) {
	owners, err := s.owners(ctx, keys)
	if err != nil {
		return nil, err
	}
	origins, err := s.origins(ctx)
	uris := make([]string, len(keys))
	for i, key := range keys {
		if o := owners[i]; o == nil {
			uris[i] = keymap.URIOf(origins, key)
		} else if !foreign(o) {
			uris[i] = o.URI
		}
	}
	return uris, err
}

// owners are the resources whose keys these are, with a file or without, nil where none.
func (s *session) owners(ctx context.Context, keys []string) ([]*store.Resource, error) {
	if s.Target.Mirror.FoldsCase() {
		keys = slices.Clone(keys)
		for i := range keys {
			keys[i] = keymap.FoldKey(keys[i])
		}
	}
	return s.Store.ByKeys(ctx, s.src.ID, keys)
}

// foreign tells a file that is no resource of the Source and was restored from the trash: it has its key for a URI, which no
// resource has, as keys carry no scheme and those of feeds begin with their feed's folder.
func foreign(r *store.Resource) bool { return r.Key != "" && r.URI == r.Key }

// origins are the beginnings of the URIs that the Source may list, as far as the configuration and its sets tell: scheme, host
// and port.
func (s *session) origins(ctx context.Context) (out []string, err error) {
	sets, err := s.Store.Sets(ctx, s.src.ID)
	known := append([]string{s.Target.URL}, s.Target.Scope...)
	for i := range sets {
		known = append(known, sets[i].CapabilityList)
	}
	for _, u := range known {
		if origin := keymap.OriginOf(u); origin != "" && !slices.Contains(out, origin) {
			out = append(out, origin)
		}
	}
	return out, err
}
