package keymap

import "strings"

// Names of what topics bring (contract.md 5): an entry lies in its feed's folder, a record in the folder records of it.
const (
	entryLeaf   = ".xml"
	RecordLeaf  = ".json"
	recordsName = "records/"
)

// EntryKey is the natural key of an entry of the feed at that URL, RecordKey that of a record of it. They fail with
// ErrNoKey where NaturalKey does.
func EntryKey(feedURL, id string) (string, error) { return inlineKey(feedURL, "", id, entryLeaf) }

// RecordKey is described at EntryKey.
func RecordKey(feedURL, subject string) (string, error) {
	return inlineKey(feedURL, recordsName, subject, RecordLeaf)
}

// inlineKey escapes an id that need not be a URI, slashes included, as one component.
func inlineKey(feedURL, below, id, leaf string) (string, error) {
	own, err := NaturalKey(feedURL)
	if err != nil {
		return "", err
	}
	b := append([]byte(strings.TrimSuffix(own, "/%index")), '/')
	b = append(b, below...)
	start := len(b)
	b = appendSegment(b, id)
	if len(b)-start > segmentLimit-len(leaf) {
		b = cut(b, start, segmentLimit-len(leaf))
	}
	if over := len(b) + len(leaf) - keyLimit; over > 0 {
		b = cut(b, 0, keyLimit-len(leaf))
	}
	return string(append(b, leaf...)), nil
}
