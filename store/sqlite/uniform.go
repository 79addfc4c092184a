package sqlite

import (
	"fmt"

	"resyncd/store"
)

// The rows of a commit mostly differ in few columns: new resources in id, URI, key and want,
// fetched ones in their file. Binding parameters is a large part of an insert, so these statements
// have the equal values in their text or as one parameter for all rows. Other rows take the general
// statements.
//
// Only the parameters that all rows share have numbers, and stand first so that theirs are the
// lowest: the driver walks SQLite's list of numbered parameters once for each parameter.
var (
	insertUniform = "INSERT OR FAIL INTO resource (source_id, action, due, id, uri, key, have, length) VALUES " +
		rowsOf("(?1, ?2, ?3, ?, ?, ?, 0, 0)", rowsAtOnce) + insertTail
	wantUniform = "INSERT OR FAIL INTO want (set_id, state, v_from, v_until, generation, resource_id, said, held, pushed) VALUES " +
		rowsOf("(?1, ?2, ?3, ?4, ?5, ?, ?, 0, 0)", rowsAtOnce) + wantTail
	updateUniform = fmt.Sprintf(`UPDATE OR FAIL resource SET have = %d, length = v.column2, file = v.column3, action = 0, due = 0,
		failure = NULL FROM (VALUES `, store.HavePresent) + rowsOf("(?, ?, ?)", rowsAtOnce) + updateTail
)

// insertStatement picks the statement that adds these rows, and fills in its parameters.
func (p *commit) insertStatement(which []int) string {
	p.args = p.args[:0]
	if len(which) != rowsAtOnce || !p.uniformNew(which) {
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
	return insertUniform
}

// uniformNew reports that nothing is on disk, nothing failed and all rows have the same work.
func (p *commit) uniformNew(which []int) bool {
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
	if len(which) != rowsAtOnce || !p.uniformWants(which) {
		for _, i := range which {
			p.args = appendWant(p.args, p.ids[i], p.c.Resources[i].Want)
		}
		return wantHead + rowsOf(wantRow, len(which)) + wantTail
	}
	p.records = p.records[:0]
	w := p.c.Resources[which[0]].Want
	p.args = append(p.args, w.SetID, int64(w.State), ms(w.Version.From), ms(w.Version.Until), w.Generation)
	for _, i := range which {
		from := len(p.records)
		p.records = appendWantData(p.records, p.c.Resources[i].Want)
		p.args = append(p.args, p.ids[i], p.records[from:])
	}
	return wantUniform
}

// uniformWants reports that all wants are of one baseline and ordinary.
func (p *commit) uniformWants(which []int) bool {
	first := p.c.Resources[which[0]].Want
	for _, i := range which {
		w := p.c.Resources[i].Want
		if w.Held || w.Pushed || w.Refused != "" || w.SetID != first.SetID || w.State != first.State ||
			w.Version.From != first.Version.From || w.Version.Until != first.Version.Until ||
			w.Generation != first.Generation {
			return false
		}
	}
	return true
}

// updateStatement is insertStatement for updateMany.
func (p *commit) updateStatement(which []int) string {
	p.args = p.args[:0]
	if !p.uniformDone(which) {
		for _, i := range which {
			r := &p.c.Resources[i]
			p.args = appendWork(appendHave(append(p.args, p.ids[i]), r.Have), r.Work)
		}
		return updateHead + rowsOf(updateRow, rowsAtOnce) + updateTail
	}
	p.records = p.records[:0]
	for _, i := range which {
		h, from := p.c.Resources[i].Have, len(p.records)
		p.records = appendFile(p.records, h)
		p.args = append(p.args, p.ids[i], h.Length, p.records[from:])
	}
	return updateUniform
}

// uniformDone reports that all files are there and no work is left.
func (p *commit) uniformDone(which []int) bool {
	for _, i := range which {
		if r := &p.c.Resources[i]; *r.Work != (store.Work{}) || r.Have.State != store.HavePresent {
			return false
		}
	}
	return true
}
