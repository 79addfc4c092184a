// Package ladder knows when to ask a hub again: the arithmetic of leases, of waits between
// requests, and the rungs of the fallback ladder. It refuses to know the time, the network and the
// records: everything is a parameter and nothing is kept.
//
// Rules are cited as S-nn and T-nn from websub.md, F-nn from faults.md. Random numbers are in [0,
// 1).
package ladder
