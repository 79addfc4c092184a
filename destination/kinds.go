package destination

import (
	"fmt"

	"resyncd/destination/rsdoc"
)

// kinds is what is known of each kind of document: its name, the kind of the lists in an archive and the archive of
// such lists, and where a set has what it offers of that kind.
var kinds = map[rsdoc.Kind]struct {
	name           string
	holds, archive rsdoc.Kind
	slot           func(s *SetOffer) **Ref
}{
	rsdoc.KindUnknown:        {name: "Sitemap"},
	rsdoc.KindDescription:    {name: "Source Description"},
	rsdoc.KindCapabilityList: {name: "Capability List"},
	rsdoc.KindResourceList: {name: "Resource List", archive: rsdoc.KindResourceListArchive,
		slot: func(s *SetOffer) **Ref { return &s.ResourceList }},
	rsdoc.KindChangeList: {name: "Change List", archive: rsdoc.KindChangeListArchive,
		slot: func(s *SetOffer) **Ref { return &s.ChangeList }},
	rsdoc.KindResourceDump: {name: "Resource Dump", archive: rsdoc.KindResourceDumpArchive,
		slot: func(s *SetOffer) **Ref { return &s.ResourceDump }},
	rsdoc.KindChangeDump: {name: "Change Dump", archive: rsdoc.KindChangeDumpArchive,
		slot: func(s *SetOffer) **Ref { return &s.ChangeDump }},
	rsdoc.KindResourceListArchive: {name: "Resource List Archive", holds: rsdoc.KindResourceList,
		slot: func(s *SetOffer) **Ref { return &s.ResourceListArchive }},
	rsdoc.KindChangeListArchive: {name: "Change List Archive", holds: rsdoc.KindChangeList,
		slot: func(s *SetOffer) **Ref { return &s.ChangeListArchive }},
	rsdoc.KindResourceDumpArchive: {name: "Resource Dump Archive", holds: rsdoc.KindResourceDump,
		slot: func(s *SetOffer) **Ref { return &s.ResourceDumpArchive }},
	rsdoc.KindChangeDumpArchive: {name: "Change Dump Archive", holds: rsdoc.KindChangeDump,
		slot: func(s *SetOffer) **Ref { return &s.ChangeDumpArchive }},
	rsdoc.KindChangeNotification:    {name: "Change Notification"},
	rsdoc.KindFrameworkNotification: {name: "Framework Notification"},
	KindFeed:                        {name: "feed"},
}

func kindName(k rsdoc.Kind) string {
	if known, ok := kinds[k]; ok {
		return known.name
	}
	return fmt.Sprintf("document of kind %.40q", string(k))
}

// archived is the kind of the lists in an archive kind, else "".
func archived(k rsdoc.Kind) rsdoc.Kind { return kinds[k].holds }

// isSnapshot reports a kind where only the union of all parts proves absence [10.2].
func isSnapshot(k rsdoc.Kind) bool { return k == rsdoc.KindResourceList || k == rsdoc.KindResourceDump }

func isDirectory(k rsdoc.Kind) bool {
	return k == rsdoc.KindDescription || k == rsdoc.KindCapabilityList
}

// isOffered reports a kind that a set offers as such.
func isOffered(k rsdoc.Kind) bool { return kinds[k].slot != nil }

func (s *SetOffer) refField(k rsdoc.Kind) **Ref {
	if slot := kinds[k].slot; slot != nil {
		return slot(s)
	}
	return nil
}

func (s *SetOffer) usable() bool {
	for _, k := range kinds {
		if k.slot != nil && *k.slot(s) != nil {
			return true
		}
	}
	return false
}
