// Package hub knows how to be a WebSub hub: who subscribes to what until when, and how content that a publisher hands over
// reaches every subscriber once, whole and in order. It refuses to know what the content means, who made it, and how its
// state is kept.
//
// Rules are cited as H-nn and R-nn from websub.md, faults as Fnn from faults.md.
package hub
