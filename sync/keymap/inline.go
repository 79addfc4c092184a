package keymap

import "strings"

// RecordLeaf ends the names of records (contract.md 5).
const (
	entryLeaf   = ".xml"
	RecordLeaf  = ".json"
	recordsName = "records/"
)

// EntryKey is the natural key of a feed's entry. It fails with ErrNoKey.
func EntryKey(feedURL, id string) (string, error) { return inlineKey(feedURL, "", id, entryLeaf) }

// RecordKey is that of a record.
func RecordKey(feedURL, subject string) (string, error) {
	return inlineKey(feedURL, recordsName, subject, RecordLeaf)
}

// inlineKey escapes an id as one component, slashes included.
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
