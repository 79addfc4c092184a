package sync

import (
	"context"
	"slices"

	"resyncd/store"
	"resyncd/sync/keymap"
)

// urisOf returns the URIs of unowned files, aligned with keys: from a row with that key, or from the key itself. ""
// means unknown.
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

func (s *session) owners(ctx context.Context, keys []string) ([]*store.Resource, error) {
	if s.Target.Mirror.FoldsCase() {
		keys = slices.Clone(keys)
		for i := range keys {
			keys[i] = keymap.FoldKey(keys[i])
		}
	}
	return s.Store.ByKeys(ctx, s.SourceID, keys)
}

// foreign reports a restored file that is no resource of the Source. Its URI is its key, which no resource has for a
// URI.
func foreign(r *store.Resource) bool { return r.Key != "" && r.URI == r.Key }

func (s *session) origins(ctx context.Context) (out []string, err error) {
	sets, err := s.Store.Sets(ctx, s.SourceID)
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
