package source

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"resyncd/destination/rsdoc"
)

// stateFile keeps the history, and what is published, over a restart. A line with its checksum is appended for each
// change before anybody can see that; what a power failure takes of the end is found again as new changes. The Source's
// lock guards it; nil without State.
type stateFile struct {
	path, world string
	restored    bool
	file        *os.File // nil after a failure, until it is written anew
	whole, more int      // lines that it was written with, and that were appended since
}

// stateLine is the first line, with Head; the end of a Change List, with Rotated; an instant, with Clock; a change,
// with At; else a resource that is published. A change that is Old does not say what is published now.
type stateLine struct {
	Head     *stateHead   `json:"head,omitempty"`
	Rotated  rsdoc.Micros `json:"rotated,omitempty"`
	Clock    rsdoc.Micros `json:"clock,omitempty"`
	At       rsdoc.Micros `json:"at,omitempty"`
	Change   rsdoc.Change `json:"change,omitempty"`
	Old      bool         `json:"old,omitempty"`
	Name     string       `json:"name,omitempty"` // escaped: a name need not be UTF-8
	Sum      []byte       `json:"sum,omitempty"`
	Sums     []byte       `json:"sums,omitempty"`
	Length   int64        `json:"length,omitempty"`
	Modified int64        `json:"modified,omitempty"`
	Version  int64        `json:"version,omitempty"`
	Live     bool         `json:"live,omitempty"`
}

type stateHead struct {
	Version   int          `json:"version"`
	World     string       `json:"world"`
	Clock     rsdoc.Micros `json:"clock"`
	Newest    rsdoc.Micros `json:"newest"`
	Archiving rsdoc.Micros `json:"archiving"`
	Past      int          `json:"past"`
	Lists     []changeList `json:"lists"`
	Archived  []changeList `json:"archived,omitempty"`
}

const stateVersion = 1

// fewLines are not worth a file written anew.
const fewLines = 1_000

// openState reads the state, if there is one.
func (s *Source) openState() error {
	o := &s.options
	if o.State == "" {
		return nil
	}
	world := "a folder"
	if made := o.Synthetic; made != nil {
		world = fmt.Sprintf("resources of seed %d and size %d", made.Seed, made.Size)
	}
	s.state = &stateFile{path: o.State, world: fmt.Sprintf("%s, hashes %v", world, o.Hashes)}
	if err := o.outside("the state", filepath.Dir(o.State)); err != nil {
		return err
	}
	file, err := os.Open(o.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the state: %w", err)
	}
	defer file.Close()
	if err := s.readState(file); err != nil {
		return fmt.Errorf("read the state %s, %w; without that file, Destinations take a baseline", o.State, err)
	}
	s.state.restored = true
	return nil
}

func (s *Source) readState(r io.Reader) error {
	in := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		switch {
		case err == nil:
			err = s.restore(bytes.TrimSuffix(line, []byte("\n")))
		case err == io.EOF && s.journal != nil: // a line without an end was being written when the program was killed
			return nil
		case err == io.EOF:
			err = errors.New("it has no beginning")
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
}

// known reports whether there was a state to go on from.
func (f *stateFile) known() bool { return f != nil && f.restored }

// outside refuses a folder of our own files that lies in the one that is served, under whatever name.
func (o *Options) outside(what, path string) error {
	served, err := os.Stat(o.Dir)
	if err != nil {
		return nil // it is made-up resources, or said later
	}
	if path, err = filepath.Abs(path); err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	for dir := path; err == nil; dir = filepath.Dir(dir) {
		if here, err := os.Stat(dir); err == nil && os.SameFile(here, served) {
			return fmt.Errorf("%s would be published: %s lies in the folder that is served", what, path)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return nil
}

// restore does again what a line says.
func (s *Source) restore(text []byte) error {
	sum, text, _ := bytes.Cut(text, []byte(" "))
	if string(sum) != checksum(text) {
		return errors.New("damaged")
	}
	var l stateLine
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if (l.Head != nil) != (s.journal == nil) {
		return errors.New("not where it belongs")
	}
	s.clock.last = max(s.clock.last, l.At, l.Rotated, l.Clock)
	switch {
	case l.Head != nil:
		return s.restoreHead(l.Head)
	case l.Rotated != 0:
		s.journal.rotate(l.Rotated)
		return nil
	case l.Clock != 0:
		return nil
	}
	name, err := url.PathUnescape(l.Name)
	if err != nil {
		return err
	}
	rec := &record{
		name: name, sums: string(l.Sums), length: l.Length, modified: l.Modified, version: l.Version, live: l.Live,
	}
	copy(rec.sum[:], l.Sum)
	if !l.Old {
		s.catalog.set(rec)
	}
	if told := *rec; l.At != 0 {
		e := event{at: l.At, kind: l.Change, record: &told}
		if l.Old {
			s.journal.history.add(e)
		} else {
			s.journal.add(e)
		}
	}
	return nil
}

func (s *Source) restoreHead(h *stateHead) error {
	if h.Version != stateVersion {
		return fmt.Errorf("it is of version %d, this program reads %d", h.Version, stateVersion)
	}
	if h.World != s.state.world {
		return fmt.Errorf("it is of %s, and this Source has %s", h.World, s.state.world)
	}
	if len(h.Lists) == 0 {
		return errors.New("no Change List")
	}
	s.clock.last = h.Clock
	j := newJournal(&s.options, h.Newest)
	j.past, j.archiving, j.lists, j.archived = h.Past, h.Archiving, h.Lists, h.Archived
	s.journal = j
	return nil
}

// MarshalJSON is for the state alone.
func (l changeList) MarshalJSON() ([]byte, error) {
	return json.Marshal([]int64{int64(l.from), int64(l.until), int64(l.first), int64(l.last)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *changeList) UnmarshalJSON(text []byte) error {
	var n [4]int64
	err := json.Unmarshal(text, &n)
	*l = newChangeList(rsdoc.Micros(n[0]), int(n[2]))
	l.until, l.last = rsdoc.Micros(n[1]), int(n[3])
	return err
}

// lineOf is a change, or with neither time nor kind what is published.
func lineOf(e event) stateLine {
	l := stateLine{
		At: e.at, Change: e.kind, Name: escapeName(e.name), Length: e.length, Modified: e.modified, Version: e.version,
		Live: e.live,
	}
	if e.live {
		l.Sum, l.Sums = e.sum[:], []byte(e.sums)
	}
	return l
}

func checksum(text []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) }

func writeLine(w io.Writer, l stateLine) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s %s\n", checksum(text), text)
	return err
}

// instant gives out one for a document; the caller holds the lock. After a restart, changes come later, whatever the
// clock says then: a Destination would pass over those that seem older than what it has.
func (s *Source) instant() rsdoc.Micros {
	at := s.clock.tick()
	s.state.append(s, stateLine{Clock: at})
	return at
}

// append adds a line; the caller holds the lock, except within New, where everything is written at the end. A change is
// published even if the disk is full.
func (f *stateFile) append(s *Source, l stateLine) {
	if f == nil || f.file == nil {
		return
	}
	f.more++
	if err := writeLine(f.file, l); err != nil {
		s.options.Logger.Error("state not written until a Change List ends, a restart finds changes again", "err", err)
		f.file.Close()
		f.file = nil
	}
}

// ended notes the end of a Change List, and writes all anew where about half of the file is past.
func (f *stateFile) ended(s *Source, at rsdoc.Micros) {
	if f == nil || f.whole == 0 { // New writes it
		return
	}
	f.append(s, stateLine{Rotated: at})
	if f.file == nil || f.more > f.whole+fewLines {
		if err := f.rewrite(s); err != nil {
			s.options.Logger.Error("state not written anew", "err", err)
		}
	}
}

// rewrite puts a file with all that is known into the place of the one before; the caller holds the lock.
func (f *stateFile) rewrite(s *Source) (err error) {
	if f == nil {
		return nil
	}
	file, err := os.OpenFile(f.path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	w, lines, j := bufio.NewWriterSize(file, 64<<10), 0, s.journal
	put := func(l stateLine) {
		if lines++; err == nil {
			err = writeLine(w, l)
		}
	}
	put(stateLine{Head: &stateHead{
		Version: stateVersion, World: f.world, Clock: s.clock.last, Newest: j.newest, Past: j.past,
		Archiving: j.archiving, Lists: j.lists, Archived: j.archived,
	}})
	for _, rec := range s.catalog.all {
		if rec != nil {
			put(lineOf(event{record: rec}))
		}
	}
	for _, e := range j.events {
		l := lineOf(e)
		l.Old = true
		put(l)
	}
	if err = cmp.Or(err, w.Flush(), file.Sync()); err == nil {
		err = os.Rename(file.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("write the state: %w", errors.Join(err, file.Close(), os.Remove(file.Name())))
	}
	if f.file != nil {
		f.file.Close()
	}
	f.file, f.whole, f.more = file, lines, 0
	dir, err := os.Open(filepath.Dir(f.path))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	return err
}

func (f *stateFile) close() error {
	if f == nil || f.file == nil {
		return nil
	}
	err := errors.Join(f.file.Sync(), f.file.Close())
	f.file = nil
	return err
}
