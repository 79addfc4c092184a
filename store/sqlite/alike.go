package sqlite

import (
	"fmt"
	"strings"

	"resyncd/store"
)

// The rows of a commit mostly differ in few columns: the resources that a list brings in their id, URI, key and want, those
// that were fetched in their file. Binding parameters was a fifth of an insert, so the statements here have what is alike in
// their text or as one parameter for all rows: a fifth less for a new resource. Any other rows take the general statements.
var (
	insertAlike = insertHead + alikeRows(3, "(?%d, ?1, ?%d, ?%d, NULL, 0, 0, NULL, ?2, ?3, NULL)") + insertTail
	wantAlike   = wantHead + alikeRows(5, "(?1, ?%d, ?2, ?3, ?4, ?5, 0, NULL, ?%d, 0)") + wantTail
	updateAlike = fmt.Sprintf(`UPDATE OR FAIL resource SET have = %d, length = v.column2, file = v.column3, action = 0, due = 0,
		failure = NULL FROM (VALUES `, store.HavePresent) + alikeRows(0, "(?%d, ?%d, ?%d)") + updateTail
)

// alikeRows is a list of rowsAtOnce rows with a parameter for each %d of row, numbered on from those that all share.
func alikeRows(shared int, row string) string {
	list := make([]string, rowsAtOnce)
	for i := range list {
		numbers := make([]any, strings.Count(row, "%d"))
		for j := range numbers {
			shared++
			numbers[j] = shared
		}
		list[i] = fmt.Sprintf(row, numbers...)
	}
	return strings.Join(list, ", ")
}

// insertStatement picks the statement that adds these rows, and fills in its parameters.
func (p *commit) insertStatement(which []int) string {
	p.args = p.args[:0]
	if len(which) != rowsAtOnce || !p.newAlike(which) {
		for _, i := range which {
			r := &p.c.Resources[i]
			p.args = append(p.args, p.ids[i], p.source, r.URI, r.Key, nameArg(r))
			p.args = appendWork(appendHave(p.args, r.Have), r.Work)
		}
		return insertHead + rowsOf(insertRow, len(which)) + insertTail
	}
	work := p.c.Resources[which[0]].Work
	p.args = append(p.args, p.source, int64(work.Action), ms(work.Due))
	for _, i := range which {
		r := &p.c.Resources[i]
		p.args = append(p.args, p.ids[i], r.URI, r.Key)
	}
	return insertAlike
}

// newAlike: nothing is on disk and nothing failed, and the same is to be done.
func (p *commit) newAlike(which []int) bool {
	first := p.c.Resources[which[0]].Work
	if first == nil || *first != (store.Work{Action: first.Action, Due: first.Due}) {
		return false
	}
	for _, i := range which {
		if r := &p.c.Resources[i]; r.Have != nil || r.Work == nil || *r.Work != *first || nameArg(r) != nil {
			return false
		}
	}
	return true
}

// wantStatement is insertStatement for wants.
func (p *commit) wantStatement(which []int) string {
	p.args = p.args[:0]
	if len(which) != rowsAtOnce || !p.wantsAlike(which) {
		for _, i := range which {
			p.args = appendWant(p.args, p.ids[i], p.c.Resources[i].Want)
		}
		return wantHead + rowsOf(wantRow, len(which)) + wantTail
	}
	w := p.c.Resources[which[0]].Want
	p.args = append(p.args, w.SetID, int64(w.State), ms(w.Version.From), ms(w.Version.Until), w.Generation)
	for _, i := range which {
		p.args = append(p.args, p.ids[i], packSaid(p.c.Resources[i].Want))
	}
	return wantAlike
}

// wantsAlike: what one baseline says, and nothing stands in its way.
func (p *commit) wantsAlike(which []int) bool {
	first := p.c.Resources[which[0]].Want
	for _, i := range which {
		w := p.c.Resources[i].Want
		if w.Held || w.Pushed || w.Refused != "" || w.SetID != first.SetID || w.State != first.State ||
			w.Version.From != first.Version.From || w.Version.Until != first.Version.Until || w.Generation != first.Generation {
			return false
		}
	}
	return true
}

// updateStatement is insertStatement for updateMany.
func (p *commit) updateStatement(which []int) string {
	p.args = p.args[:0]
	if !p.doneAlike(which) {
		for _, i := range which {
			r := &p.c.Resources[i]
			p.args = appendWork(appendHave(append(p.args, p.ids[i]), r.Have), r.Work)
		}
		return updateHead + rowsOf(updateRow, rowsAtOnce) + updateTail
	}
	for _, i := range which {
		h := p.c.Resources[i].Have
		p.args = append(p.args, p.ids[i], h.Length, packFile(h))
	}
	return updateAlike
}

// doneAlike: the file is there, and nothing is left to do.
func (p *commit) doneAlike(which []int) bool {
	for _, i := range which {
		if r := &p.c.Resources[i]; *r.Work != (store.Work{}) || r.Have.State != store.HavePresent {
			return false
		}
	}
	return true
}
