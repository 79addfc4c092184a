// Package plan turns what documents and notifications say of resources into wants, batch by batch, each in one commit; it knows
// the rows that an entry meets and refuses to know who read the entry and who carries the work out.
package plan
