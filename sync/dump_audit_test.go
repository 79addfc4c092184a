package sync

import (
	"slices"
	"testing"
)

// TestAuditOfDumps: the `contents` of packages stand in for lists that a Source does not have. A package is not read for
// an audit, which then vouches for nothing.
func TestAuditOfDumps(t *testing.T) {
	t.Parallel()
	for _, contents := range []bool{true, false} {
		d := &changeDump{fake: dumped(t, "auto"), contents: contents}
		d.set("resourcedump", "/rd.xml", "changedump", "/cd.xml")
		base, news := members(5, 0), changes(members(4, 10), "created", 10)
		var where []string
		if contents {
			where = []string{"/c.xml"}
			d.page("/c.xml", d.manifest("resourcedump-manifest", `at="`+when(0)+`"`, base))
		}
		d.resourceDump(0, where, base)
		d.add("/p", 0, 15, news...)
		d.publish("/cd.xml")
		d.one(true)
		d.holds(bodiesOf(slices.Concat(base, news)...))
		if !contents {
			d.with(func(e *Engine, target Target) {
				if rep, err := e.Audit(t.Context(), target, d.opts, false, nil); err == nil || rep.InStep {
					t.Errorf("%+v, %v", rep, err)
				}
			})
			continue
		}
		d.auditFinds()
		d.add("/p", 15, 30, changes(members(1, 11), "deleted", 20)...)
		d.publish("/cd.xml")
		base[0].body = "new"
		d.page("/r000", "new")
		d.page("/c.xml", d.manifest("resourcedump-manifest", `at="`+when(0)+`"`, base))
		d.auditFinds("stale /r000", "unlisted /r011")
	}
}
