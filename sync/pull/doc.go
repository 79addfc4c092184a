// Package pull reads a Source's documents and notifications and turns them into wants and coverage; it knows what a reading proves
// and refuses to know when a pull is due and who fetches what is wanted.
package pull
