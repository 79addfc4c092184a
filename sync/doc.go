// Package sync knows how to bring a mirror in step with its Source: inputs become wants and coverage, one reconciler
// turns wants into files (CONTRIBUTING.md 3). It refuses to know how bytes travel (destination/fetch), where rows and files are
// kept (store, store/blob), and who asked for the work (cmd).
//
// It is imported under the alias syncengine everywhere outside.
package sync
