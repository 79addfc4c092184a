// Package transfer turns wants into files: it tracks rows with work (Workset), asks the Source, makes groups of files
// durable and removes files. It knows nothing of documents, notifications and coverage.
package transfer
