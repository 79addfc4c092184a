package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"resyncd/destination"
	"resyncd/store"
	"resyncd/sync/parsed"
)

// Document returns what is remembered of a document, and one without URL if that is nothing.
func (s *Source) Document(ctx context.Context, url string) (store.Document, error) {
	d, err := s.Store.Document(ctx, s.SourceID, url)
	if errors.Is(err, store.ErrNotFound) {
		return s.NewDocument("", ""), nil
	}
	return d, err
}

// NewDocument returns the record of a document that was read now, without times of its own.
func (s *Source) NewDocument(url, kind string) store.Document {
	return store.Document{SourceID: s.SourceID, URL: url, Kind: kind, Read: s.LocalNow(),
		At: store.NoTime, From: store.NoTime, Until: store.NoTime, LastEntry: store.NoTime}
}

// RecallJSON reads a remembered value; false for none.
func (s *Source) RecallJSON(ctx context.Context, key string, into any) (bool, error) {
	d, err := s.Document(ctx, key)
	if err != nil || len(d.Body) == 0 {
		return false, err
	}
	return json.Unmarshal(d.Body, into) == nil, nil // another version's form counts as unknown
}

func (s *Source) memo(set *store.Set, key string, what any) (store.Document, error) {
	body, err := json.Marshal(what)
	if err != nil {
		return store.Document{}, fmt.Errorf("remember %s: %w", key, err)
	}
	d := s.NewDocument(key, kindTopic)
	d.SetID, d.Complete, d.Body = set.ID, true, body
	return d, nil
}

func (p *Puller) rememberJSON(key string, what any) error {
	d, err := p.memo(p.Set, key, what)
	if err == nil {
		p.pending.docs = append(p.pending.docs, d)
	}
	return err
}

// Recall implements destination.Memory.
func (s *Source) Recall(ctx context.Context, url string) (*destination.Document, error) {
	var doc destination.Document
	if found, err := s.RecallJSON(ctx, url, &doc); err != nil || !found || doc.URL != url {
		return nil, err
	}
	return &doc, nil
}

// Remember implements destination.Memory.
func (s *Source) Remember(ctx context.Context, d *destination.Document) error {
	known := *d
	known.ETag, known.LastModified = parsed.Lasting(d.ETag, d.LastModified, store.Micros(d.Date))
	body, err := json.Marshal(known)
	if err != nil {
		return fmt.Errorf("remember %s: %w", d.URL, err)
	}
	doc := s.NewDocument(d.URL, string(d.Head.Kind))
	doc.ETag, doc.LastModified = known.ETag, known.LastModified
	doc.At, doc.From, doc.Until = store.Micros(d.Head.At), store.Micros(d.Head.From), store.Micros(d.Head.Until)
	doc.Entries, doc.Complete, doc.Body = int64(len(d.Entries)), true, body
	// Repeatable, because a power cut only costs a request without a condition. A chain of documents then waits for no
	// disk.
	return s.Store.Commit(ctx, &store.Commit{Claim: s.Claim, Repeatable: true, Documents: []store.Document{doc}})
}
