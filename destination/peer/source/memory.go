package source

import (
	"bytes"
	"fmt"
	"time"
)

// memory has the bodies that the program puts there, by slot. The Source's lock guards it.
type memory map[int][]byte

func (m memory) reach(slot int, rec *record) func() (body, error) {
	b, modified := m[slot], time.Unix(rec.modified, 0)
	return func() (body, error) {
		return body{ReadSeeker: bytes.NewReader(b), modified: modified, exact: true}, nil
	}
}

// Put creates or updates a resource of a Source in memory. The name is unescaped bytes without a slash in front. The
// body is kept, not copied.
func (s *Source) Put(name string, body []byte) error {
	m, ok := s.backend.(memory)
	if !ok {
		return fmt.Errorf("put %q: the Source is not in memory", name)
	}
	if !validName(name) || s.reserved(name) {
		return fmt.Errorf("put %q: not a name that a URI path can have here", name)
	}
	rec := record{live: true}
	if err := s.digests.fill(&rec, bytes.NewReader(body)); err != nil {
		return fmt.Errorf("put %q: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.catalog.slotFor(name)
	rec.modified = s.options.Now().Unix()
	m[slot] = body
	s.publish(slot, rec)
	return nil
}

// Delete removes a resource of a Source in memory. It reports whether there was one.
func (s *Source) Delete(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.backend.(memory)
	if !ok {
		return false
	}
	slot, ok := s.catalog.find(name)
	if !ok || !s.catalog.at(slot).live {
		return false
	}
	delete(m, slot)
	s.publish(slot, record{})
	return true
}
