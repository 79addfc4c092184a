package source

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"resyncd/destination/rsdoc"
)

const manifestName = "manifest.xml"

// packed is the file of a package.
type packed string

func (p packed) open(rec *record) (body, error) {
	file, err := os.Open(string(p))
	if err != nil {
		return body{}, err
	}
	return body{ReadSeeker: file, close: file.Close, modified: time.Unix(rec.modified, 0), exact: true}, nil
}

// remove leaves a file that cannot be removed to the end of the program.
func (p packed) remove() { _ = os.Remove(string(p)) }

// zip is a package as a resource, gathered if it was not before.
func (d *dumps) zip(name string) (*record, error) {
	if d == nil {
		return nil, errAbsent
	}
	if _, done, err := d.find(name); done != nil || err != nil {
		return done, err
	}
	d.gathering.Lock()
	defer d.gathering.Unlock()
	p, done, err := d.find(name)
	if done != nil || err != nil {
		return done, err
	}
	done, head, err := d.gather(p)
	if err != nil {
		return nil, err
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if p.gone {
		done.content.(packed).remove()
		return nil, errAbsent
	}
	if p.head, p.zip = head, done; p.of != nil {
		p.of.completed = max(p.of.completed, head.Completed)
	}
	return done, nil
}

// manifest is what `contents` leads to: the manifest in the package.
func (d *dumps) manifest(name string) (text, error) {
	rec, err := d.zip(name)
	if err != nil {
		return text{}, err
	}
	return text{
		tag: fmt.Sprintf("m%x", rec.sum[:8]), modified: rsdoc.NoTime, mediaType: "application/xml",
		write: func(w io.Writer) error {
			z, err := zip.OpenReader(string(rec.content.(packed)))
			if err != nil {
				return err
			}
			defer z.Close()
			in, err := z.Open(manifestName)
			if err != nil {
				return err
			}
			_, err = io.Copy(w, in)
			return err
		},
	}, nil
}

// gather makes the file of a package, and says what the head of its manifest has become.
func (d *dumps) gather(p *pack) (rec *record, head rsdoc.Head, err error) {
	if d.closed.Load() {
		return nil, head, errAbsent
	}
	if _, err := os.Stat(d.folder); err != nil { // not made, or cleaned away
		if d.folder, err = os.MkdirTemp("", "rssource-dumps-"); err != nil {
			return nil, head, fmt.Errorf("make a folder for packages: %w", err)
		}
	}
	file, err := os.CreateTemp(d.folder, "*"+packageEnd)
	if err != nil {
		return nil, head, fmt.Errorf("make a package: %w", err)
	}
	defer file.Close()
	rec = &record{
		name: p.name + packageEnd, live: true, modified: d.s.options.Now().Unix(), content: packed(file.Name()),
	}
	what := lastOf(p.changes)
	for _, rec := range p.records {
		what = append(what, event{at: rsdoc.NoTime, record: rec})
	}
	if head, err = d.s.pack(file, p.head, what, d); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = d.s.fill(rec, file)
	}
	if err != nil {
		packed(file.Name()).remove()
		return nil, head, fmt.Errorf("make the package %s: %w", p.name, err)
	}
	return rec, head, nil
}

// member is an entry of a manifest.
type member struct {
	event
	path string
}

// pack writes a package: members are numbered, so that no name of a resource becomes a path. Where d is nil it is the
// answer to one who asked: a file that has changed since may be in it, but not in the manifest.
func (s *Source) pack(w io.Writer, head rsdoc.Head, what []event, d *dumps) (rsdoc.Head, error) {
	z := newZip(w)
	var members []member
	for i, e := range what {
		if d != nil && d.closed.Load() {
			return head, errAbsent
		}
		m := member{e, ""}
		if e.record.live {
			name := fmt.Sprintf("resources/%06d", i+1)
			rec, err := s.add(z, name, e.record)
			if d == nil && (err != nil || rec != e.record) {
				rec, err = nil, z.Flush() // the reader may be gone
			}
			if err != nil {
				return head, err
			}
			if rec == nil {
				continue
			}
			if m.path = "/" + name; rec != e.record {
				s.mu.Lock()
				head.Completed = s.instant()
				s.mu.Unlock()
			}
			m.record = rec
		}
		members = append(members, m)
	}
	manifest, err := z.Create(manifestName)
	if err != nil {
		return head, err
	}
	err = s.write(manifest, head, eachEntry(members, func(e *rsdoc.Entry, m member) {
		s.describe(e, m.record)
		e.Change, e.Datetime, e.Path = m.kind, m.at, m.path
	}))
	if err != nil {
		return head, err
	}
	return head, z.Close()
}

// add adds a member and returns what its bytes are. A file of a snapshot may have become another one; the bytes of a
// change have to be its own. nil: a later change that was published has taken their place.
func (s *Source) add(z *zip.Writer, name string, rec *record) (*record, error) {
	now, err := s.find(rec.name)
	has, change := rec, rec.content == nil
	if change {
		if err != nil || now.sum != rec.sum {
			return nil, nil
		}
		has = now
	}
	b, problem := has.content.open(has)
	if problem != nil {
		if err != nil { // deleted since
			return nil, nil
		}
		if errors.Is(problem, fs.ErrNotExist) || errors.Is(problem, syscall.ENOTDIR) {
			return nil, fmt.Errorf("%w: %v", errChanging, problem) // published soon
		}
		return nil, problem
	}
	if b.close != nil {
		defer b.close()
	}
	out, err := z.Create(name)
	if err != nil {
		return nil, err
	}
	got := &record{name: rec.name, live: true, modified: b.modified.Unix()}
	if err := s.fill(got, io.TeeReader(b, out)); err != nil {
		return nil, err
	}
	switch {
	case got.sum == rec.sum:
		return rec, nil
	case change:
		return nil, fmt.Errorf("pack %q: %w", rec.name, errChanging)
	}
	return got, nil
}

// newZip is a writer of packages. It has one compressor for all members: making one costs more than a small member.
func newZip(w io.Writer) *zip.Writer {
	z := zip.NewWriter(w)
	deflate, _ := flate.NewWriter(nil, flate.BestSpeed) // a level that exists
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		deflate.Reset(w)
		return deflate, nil
	})
	return z
}
