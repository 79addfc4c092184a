package source

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"resyncd/destination/rsdoc"
)

// Where the dumps are. The name of a package, with another end, is that of its `contents`.
const (
	resourceDump     = documents + "/resourcedump.xml" // the dump, or the index once it has too many packages
	resourceDumpPart = documents + "/resourcedump/"
	changeDump       = documents + "/changedump.xml"
	changeDumpPart   = documents + "/changedump/"

	packageEnd  = ".zip"
	manifestEnd = ".manifest.xml"
)

// dumpAge is the least age of a Resource Dump before another one is offered, beside a millisecond for each resource;
// and of a change before it makes a package that is not full.
const dumpAge = 3 * time.Second

// dumps are the packages on offer [digest 10], nil without Dumps. A package is gathered when it, or its manifest, is
// first asked for, and stays as it is.
type dumps struct {
	s *Source
	// gathering lets one package be gathered at a time, and guards folder.
	gathering sync.Mutex
	folder    string // of the packages, made for the first one
	closed    atomic.Bool

	// The Source's lock guards what follows.
	resources [2]dump // the current Resource Dump, and the one before, which may still be read
	changes   []*pack // oldest first, each from where the one before ends
	number    int     // of the newest of these
	told      int     // number of the last change in these
	until     rsdoc.Micros
}

// dump is one Resource Dump.
type dump struct {
	*snapshot
	packs []*pack
}

// pack is a package on offer.
type pack struct {
	name string     // without its end
	head rsdoc.Head // of its manifest
	of   *snapshot  // of a Resource Dump; what is gathered from it later completes it later
	// records and changes are what it is gathered from, the one or the other.
	records []*record
	changes []event
	zip     *record // nil before it was gathered
	gone    bool    // no longer on offer
}

func newDumps(s *Source) *dumps {
	first := s.journal.all()[0]
	return &dumps{s: s, told: first.first, until: first.from}
}

func (d *dumps) close() error {
	if d == nil {
		return nil
	}
	d.closed.Store(true)
	d.gathering.Lock()
	defer d.gathering.Unlock()
	return os.RemoveAll(d.folder)
}

// document is a document about the dumps.
func (d *dumps) document(name string) (text, error) {
	pack, isManifest := strings.CutSuffix(name, manifestEnd)
	switch {
	case d == nil:
		return text{}, errAbsent
	case name == resourceDump:
		return d.resourceDocument(), nil
	case name == changeDump:
		return d.changeDocument(), nil
	case isManifest:
		return d.manifest(pack)
	}
	return d.part(name)
}

// resourceDocument is the Resource Dump, a new one if that is due, or its index.
func (d *dumps) resourceDocument() text {
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	n := d.resources[0]
	if n.snapshot == nil || s.due(n.snapshot, dumpAge+time.Duration(s.catalog.live)*time.Millisecond) {
		withdraw(d.resources[1].packs)
		d.resources = [2]dump{d.take(), n}
		n = d.resources[0]
	}
	if parts := n.documents(s.options.ListSize); parts > 1 {
		return s.snapshotIndex(rsdoc.KindResourceDump, resourceDumpPart, n.snapshot, parts)
	}
	return d.resourcePart(n, 0)
}

// take takes a Resource Dump; the caller holds the lock.
func (d *dumps) take() dump {
	n := dump{snapshot: d.s.snapshot(d.s.options.DumpSize)}
	head := d.s.newHead(rsdoc.List, rsdoc.KindResourceDumpManifest)
	head.At, head.Completed = n.at, n.completed
	for i := range n.parts() {
		name := resourceDumpPart + strings.TrimSuffix(n.partName(i), ".xml")
		n.packs = append(n.packs, &pack{name: name, head: head, of: n.snapshot, records: n.part(i)})
	}
	return n
}

// documents is how many documents list the packages.
func (n dump) documents(size int) int { return (len(n.packs) + size - 1) / size }

// part finds a part of the current Resource Dump or the one before.
func (d *dumps) part(name string) (text, error) {
	d.s.mu.RLock()
	defer d.s.mu.RUnlock()
	for _, n := range d.resources {
		for part := range n.documents(d.s.options.ListSize) {
			if resourceDumpPart+n.partName(part) == name {
				return d.resourcePart(n, part), nil
			}
		}
	}
	return text{}, errAbsent
}

// resourcePart is the Resource Dump, or a part of it; the caller holds the lock.
func (d *dumps) resourcePart(n dump, part int) text {
	size := d.s.options.ListSize
	head := d.s.newHead(rsdoc.List, rsdoc.KindResourceDump)
	if n.documents(size) > 1 {
		head.Links = append(head.Links, rsdoc.NewLink(rsdoc.RelIndex, d.s.at(resourceDump)))
	}
	head.At, head.Completed = n.at, n.completed
	return d.packages(head, n.packs[part*size:min((part+1)*size, len(n.packs))])
}

// changeDocument is the Change Dump, which stays open.
func (d *dumps) changeDocument() text {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.cut()
	head := d.s.newHead(rsdoc.List, rsdoc.KindChangeDump)
	head.From = d.until
	if len(d.changes) > 0 {
		head.From = d.changes[0].head.From
	}
	return d.packages(head, d.changes)
}

// cut makes packages of the changes that have none, and withdraws those that are older than the Change Lists; the
// caller holds the lock.
func (d *dumps) cut() {
	j, size := d.s.journal, d.s.options.DumpSize
	oldest := j.all()[0]
	if d.told < oldest.first {
		d.told, d.until = oldest.first, oldest.from
	}
	for j.total()-d.told >= size {
		d.span(size)
	}
	if rest := j.total() - d.told; rest > 0 && d.s.age(j.span(d.told, d.told+1)[0].at) >= dumpAge {
		d.span(rest)
	}
	old := 0
	for ; old < len(d.changes) && d.changes[old].head.Until <= oldest.from; old++ {
	}
	old = max(old, len(d.changes)-DefaultListSize)
	withdraw(d.changes[:old])
	d.changes = slices.Delete(d.changes, 0, old)
}

// span makes a package of the next n changes; the caller holds the lock.
func (d *dumps) span(n int) {
	j := d.s.journal
	changes := j.span(d.told, d.told+n)
	head := d.s.newHead(rsdoc.List, rsdoc.KindChangeDumpManifest)
	head.From, head.Until = d.until, changes[n-1].at
	if d.told += n; d.told == j.total() {
		head.Until = d.s.instant()
	}
	d.number++
	name := fmt.Sprintf("%s%s-%05d", changeDumpPart, stamp(d.s.begin), d.number)
	d.changes = append(d.changes, &pack{name: name, head: head, changes: changes})
	d.until = head.Until
}

// lastOf returns the last change of each resource.
func lastOf(changes []event) []event {
	newest := map[string]rsdoc.Micros{}
	for _, e := range changes {
		newest[e.name] = e.at
	}
	return slices.DeleteFunc(slices.Clone(changes), func(e event) bool { return newest[e.name] != e.at })
}

// packages is a document that lists packages; the caller holds the lock. What is known of one, once it was gathered,
// makes the document another.
func (d *dumps) packages(head rsdoc.Head, packs []*pack) text {
	gathered, rows := 0, make([]pack, len(packs))
	for i, p := range packs {
		if rows[i] = *p; p.zip != nil {
			gathered++
		}
	}
	entries := eachEntry(rows, func(e *rsdoc.Entry, p pack) {
		name := p.name + packageEnd
		*e = rsdoc.NewEntry(d.s.at(name))
		if p.zip != nil {
			e.Digests, e.Length = d.s.appendDigests(nil, p.zip), p.zip.length
		}
		e.Type = d.s.mediaType(name)
		e.At, e.Completed, e.From, e.Until = p.head.At, p.head.Completed, p.head.From, p.head.Until
		contents := rsdoc.NewLink("contents", d.s.at(p.name+manifestEnd))
		contents.Type = "application/xml"
		e.Links = []rsdoc.Link{contents}
	})
	first := ""
	if len(rows) > 0 {
		first = rows[0].name
	}
	tag := fmt.Sprintf("u%x.%x.%d.%d.%s", int64(max(head.At, head.From)), int64(head.Completed), len(rows), gathered,
		first[strings.LastIndexByte(first, '-')+1:])
	return d.s.newDocument(tag, rsdoc.NoTime, head, entries)
}

// find finds a package by its name.
func (d *dumps) find(name string) (*pack, *record, error) {
	d.s.mu.RLock()
	defer d.s.mu.RUnlock()
	all := slices.Concat(d.changes, d.resources[0].packs, d.resources[1].packs)
	i := slices.IndexFunc(all, func(p *pack) bool { return p.name == name })
	if i < 0 {
		return nil, nil, errAbsent
	}
	return all[i], all[i].zip, nil
}

// withdraw forgets packages; the caller holds the lock. Who reads one reads on.
func withdraw(packs []*pack) {
	for _, p := range packs {
		if p.gone = true; p.zip != nil {
			p.zip.content.(packed).remove()
		}
	}
}
