// Package ladder knows when to ask a hub again: leases, waits between requests, and the rungs of the fallback ladder.
// It refuses to know the time, the network and the records. Random numbers are in [0, 1).
package ladder
