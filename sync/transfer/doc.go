// Package transfer knows how wants become files: which rows have work (Workset), who asks the Source for them, how groups of
// them become durable, and how files go. It refuses to know documents, notifications and coverage: wants are all it is told.
package transfer
