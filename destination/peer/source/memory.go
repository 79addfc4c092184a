package source

import (
	"bytes"
	"fmt"
	"time"
)

// memory is a body that the program put there.
type memory []byte

func (m memory) open(rec *record) (body, error) {
	return body{ReadSeeker: bytes.NewReader(m), modified: time.Unix(rec.modified, 0), exact: true}, nil
}

// Put creates or updates a resource of a Source in memory. The name is unescaped bytes without a slash in front. The
// body is kept, not copied.
func (s *Source) Put(name string, body []byte) error {
	if s.backend != nil {
		return fmt.Errorf("put %q: the Source is not in memory", name)
	}
	if !validName(name) || s.reserved(name) {
		return fmt.Errorf("put %q: not a name that a URI path can have here", name)
	}
	rec := &record{name: name, live: true, content: memory(body)}
	if err := s.digests.fill(rec, bytes.NewReader(body)); err != nil {
		return fmt.Errorf("put %q: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.modified = s.options.Now().Unix()
	s.publish(rec)
	return nil
}

// Delete removes a resource of a Source in memory. It reports whether there was one.
func (s *Source) Delete(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.catalog.find(name)
	if s.backend != nil || rec == nil || !rec.live {
		return false
	}
	s.publish(&record{name: name})
	return true
}
