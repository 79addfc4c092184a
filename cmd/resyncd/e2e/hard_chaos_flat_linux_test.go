package e2e_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/store/sqlite"
)

// figures are what the daemon takes while nothing happens.
type figures struct {
	goroutines, descriptors int
	resident                int64 // bytes
	temporary               int   // files in the stage, and in the folder of the state beside those that belong there
	rows                    map[string]int
}

func (f figures) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d MiB resident, %d temporary files, rows %v", f.goroutines, f.descriptors, f.resident>>20, f.temporary, f.rows)
}

// figures reads them: from the daemon's own metrics, and from its folders.
func (c *chaos) figures() (f figures) {
	c.t.Helper()
	text, err := get("http://" + c.listensOn()[1] + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	metric := func(name string) float64 {
		for line := range strings.Lines(text) {
			if v, ok := strings.CutPrefix(line, name+" "); ok {
				n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
				if err != nil {
					c.t.Error(err)
				}
				return n
			}
		}
		c.t.Errorf("the daemon has no metric %s", name)
		return 0
	}
	f.goroutines, f.descriptors = int(metric("go_goroutines")), int(metric("process_open_fds"))
	f.resident = int64(metric("process_resident_memory_bytes"))
	f.rows = c.rows()
	f.temporary = len(leftInStage(c.mirror))
	return f
}

// rows counts those of each table that has any.
func (c *chaos) rows() map[string]int {
	c.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(c.data, mirror.StateFile)+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	var tables string
	if err := db.QueryRow("SELECT group_concat(name) FROM sqlite_master WHERE type = 'table'").Scan(&tables); err != nil {
		c.t.Fatal(err)
	}
	rows := map[string]int{}
	for table := range strings.SplitSeq(tables, ",") {
		var n int
		if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
			c.t.Fatal(err)
		}
		if n > 0 {
			rows[table] = n
		}
	}
	return rows
}

// quiet waits until the inbox is empty, and reads what the daemon takes then.
func (c *chaos) quiet() (f figures) {
	c.t.Helper()
	c.until("the inbox is empty", 30*time.Second, func() bool {
		f = c.figures()
		return f.rows["inbox"] == 0
	})
	return f
}

// heldTables are the tables that hold what is, not what was: of these there are never more rows than at first.
func heldTables() []string {
	return []string{"source", "sets", "subscription", "tidy", "folder", "resource", "want", "content", "edit", "inbox", "inbox_share"}
}

// more tells what has grown since first. Connections that are kept for a while come and go, and with each two goroutines; a
// bounded number of folders stays open, at first not yet those of the trash, and of readers of the state.
func (f figures) more(first figures) (grown []string) {
	const connections, kept = 10, 10
	for what, grew := range map[string]bool{
		"goroutines":      f.goroutines > first.goroutines+2*connections,
		"descriptors":     f.descriptors > first.descriptors+connections+kept,
		"resident memory": f.resident > first.resident+first.resident/2+(16<<20),
		"temporary files": f.temporary > first.temporary,
	} {
		if grew {
			grown = append(grown, what)
		}
	}
	for _, table := range heldTables() {
		if f.rows[table] > first.rows[table] {
			grown = append(grown, "rows of "+table)
		}
	}
	return grown
}

// flat waits until the daemon takes no more than it did at first. A Framework Notification that came while the Source could not be
// read stays in the inbox for the minute until its Capability Lists are asked for again.
func (c *chaos) flat(first figures) (now figures) {
	c.t.Helper()
	end := time.Now().Add(90 * time.Second)
	for {
		now = c.figures()
		grown := now.more(first)
		if len(grown) == 0 {
			return now
		}
		if time.Now().After(end) {
			c.t.Errorf("more than at first: %s; %s, then %s", strings.Join(grown, ", "), first, now)
			return now
		}
		<-time.After(200 * time.Millisecond)
	}
}

// rowsKept has the state tidied as the daemon does every hour, and insists that no history is longer than it may be.
func (c *chaos) rowsKept(first figures) map[string]int {
	c.t.Helper()
	st, err := sqlite.Open(c.t.Context(), filepath.Join(c.data, mirror.StateFile), sqlite.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	for more := true; more && err == nil; {
		more, err = st.Tidy(c.t.Context())
	}
	if err := errors.Join(err, st.Close()); err != nil {
		c.t.Fatal(err)
	}
	rows := c.rows()
	for table, n := range rows {
		most := c.tally["changes"] + 200
		switch table {
		case "gap":
			most = 100
		case "run":
			most = 200
		case "event":
			most = 100 * first.rows["resource"]
		}
		if n > most && !slices.Contains(heldTables(), table) {
			c.t.Errorf("%d rows of %s, more than %d", n, table, most)
		}
	}
	return rows
}
