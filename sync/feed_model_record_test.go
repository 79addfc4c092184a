package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"resyncd/store"
	"resyncd/sync/keymap"
)

// edit is a change of some fields of a record. Two of three are published as they are observed, one long after that; no two
// are observed at once, because those could not be told apart.
func (h *feedWorld) edit() *fieldEdit {
	n := h.s.serial
	e := &fieldEdit{subject: fmt.Sprintf("s/%d", n%3), author: fmt.Sprintf("tel:+%d", n%2), day: 100 + n*3, fields: map[string]string{}}
	if n/8%2 > 0 {
		e.day -= 59
	}
	for i, name := range []string{"title", "available_beds"} {
		if (n+i)%3 > 0 {
			e.fields[name] = fmt.Sprint(n)
		}
	}
	return e
}

// holdsRecords holds that each edit that was published is known or may be lost, and that records are what the known ones make
// of them.
func (h *feedWorld) holdsRecords(when string, full bool) {
	ctx, reach := context.Background(), h.s.reach()
	src, err := h.eng.Store.Source(ctx, "test")
	if err != nil {
		h.rt.Fatal(err)
	}
	known := map[string]map[store.Micros]bool{}
	for n := range 3 {
		subject := fmt.Sprintf("s/%d", n)
		edits, err := h.eng.Store.Edits(ctx, src.ID, subject)
		if err != nil {
			h.rt.Fatal(err)
		}
		known[subject] = map[store.Micros]bool{}
		for _, e := range edits {
			known[subject][e.Observed] = true
		}
	}
	var wrong []string
	made, last := map[string]map[string]string{}, map[string]int{}
	for _, id := range h.s.ids {
		e := h.s.things[id]
		it, edit := e.last(), e.last().edit
		if known[edit.subject][store.MicrosOf(on(edit.day))] {
			if made[edit.subject] == nil {
				made[edit.subject] = map[string]string{}
			}
			for name, value := range edit.fields {
				if at := edit.subject + name; edit.day >= last[at] {
					made[edit.subject][name], last[at] = value, edit.day
				}
			}
			continue
		}
		always, shown := reach[it]
		switch {
		case it.flawed && shown && (always || full):
			wrong = append(wrong, id+" cannot be read")
		case shown && (always || full):
			wrong = append(wrong, id+" is not known, and a document shows it")
		case !(e.unread && len(h.s.missing) == 0) && !h.runs.gapFor(it.tick):
			wrong = append(wrong, id+" is not known, and no gap was found")
		}
	}
	for subject, fields := range made {
		if got := h.fields(subject); fmt.Sprint(got) != fmt.Sprint(fields) {
			wrong = append(wrong, fmt.Sprintf("record %s is %v, its file %v", subject, fields, got))
		}
	}
	if len(wrong) > 0 {
		h.fail("%s, in step, but %s", when, strings.Join(wrong, "; "))
	}
}

// fields are those of the file of a record.
func (h *feedWorld) fields(subject string) map[string]string {
	key, err := keymap.RecordKey(h.s.base+feedPath, subject)
	if err != nil {
		h.rt.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(h.root, filepath.FromSlash(key)))
	if err != nil {
		return nil
	}
	var f recordFile
	if err := json.Unmarshal(b, &f); err != nil {
		h.rt.Fatal(err)
	}
	out := map[string]string{}
	for name, field := range f.Fields {
		out[name] = field.Value
	}
	return out
}
