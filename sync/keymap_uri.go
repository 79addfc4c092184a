package sync

import (
	"context"
	"slices"
	"strings"

	"resyncd/store"
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
			uris[i] = uriOf(origins, key)
		} else if !foreign(o) {
			uris[i] = o.URI
		}
	}
	return uris, err
}

// owners are the resources whose keys these are, with a file or without, nil where none.
func (s *session) owners(ctx context.Context, keys []string) ([]*store.Resource, error) {
	if s.t.Mirror.FoldsCase() {
		keys = slices.Clone(keys)
		for i := range keys {
			keys[i] = FoldKey(keys[i])
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
	known := append([]string{s.t.URL}, s.t.Scope...)
	for i := range sets {
		known = append(known, sets[i].CapabilityList)
	}
	for _, u := range known {
		_, _, rest, ok := splitURI(u)
		if origin := strings.TrimSuffix(u, rest); ok && !strings.Contains(origin, "@") && !slices.Contains(out, origin) {
			out = append(out, origin)
		}
	}
	return out, err
}

// uriOf is the URI below one of origins that has this natural key, "" where none has it or several may.
func uriOf(origins []string, key string) (uri string) {
	path, ok := "", false
	for _, origin := range origins {
		host, port, _, _ := splitURI(origin)
		rest, below := strings.CutPrefix(key, string(appendHost(nil, host, port))+"/")
		if !below {
			continue
		}
		if path, ok = pathOf(rest); !ok || uri != "" { // http and https have one key
			return ""
		}
		uri = origin + "/" + path
	}
	if natural, err := NaturalKey(uri); err != nil || natural != key {
		return ""
	}
	return uri
}

// pathOf is what a URI has in place of the part of a natural key that follows the host. It cannot be told where a byte is
// escaped that may just as well stand for itself in a URI, nor where the key was cut.
func pathOf(key string) (string, bool) {
	segments := strings.Split(key, "/")
	leaf := &segments[len(segments)-1]
	if *leaf == "%index" {
		*leaf = ""
	}
	*leaf = strings.Replace(*leaf, "%q", "?", 1)
	for i, segment := range segments {
		if segment == "%z" {
			segments[i] = ""
			continue
		}
		for j := 0; j < len(segment); j++ {
			if segment[j] != '%' {
				continue
			}
			if j+2 >= len(segment) || !isHex(segment[j+1]) || !isHex(segment[j+2]) {
				return "", false
			}
			if c := unhex(segment[j+1])<<4 | unhex(segment[j+2]); safeByte(c) || strings.IndexByte(":/?#[]!$&'*;", c) >= 0 {
				return "", false
			}
		}
	}
	return strings.Join(segments, "/"), true
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return lower(c) - 'a' + 10
}
