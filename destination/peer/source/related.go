package source

import (
	"strings"

	"resyncd/destination/rsdoc"
)

const (
	jsonType = "application/json"
	// patchType is the name of the draft, as the specification has it [11].
	patchType     = "application/json-patch"
	relCollection = "collection"
)

// relate adds to an entry where its resource is a second time, and the collection that its top folder makes [11]. A
// deleted one stays in its collection, or a reader of that collection would not hear of the end.
func (s *Source) relate(entry *rsdoc.Entry, live bool) {
	path := entry.Loc[len(s.options.Base)+1:]
	if base := s.options.Duplicate; base != "" && live {
		link := rsdoc.NewLink(rsdoc.RelDuplicate, base+"/"+path)
		link.Pri = 1
		entry.Links = append(entry.Links, link)
	}
	if folder, _, ok := strings.Cut(path, "/"); ok && s.options.Collections {
		entry.Links = append(entry.Links, rsdoc.NewLink(relCollection, s.at(folder+"/")))
	}
}

// patchLink is where the patch of a change is [11].
func (s *Source) patchLink(p *patch) rsdoc.Link {
	link := rsdoc.NewLink(rsdoc.RelPatch, s.at(patchDocuments+p.name()))
	digest := rsdoc.Digest{Alg: rsdoc.SHA256}
	copy(digest.Sum[:], p.sum[:])
	link.Type, link.Length, link.Digests = patchType, p.length, []rsdoc.Digest{digest}
	return link
}
