// Package sync knows how to bring a mirror in step with its Source: inputs become wants and coverage, one reconciler
// turns wants into files (CONTRIBUTING.md 3). It refuses to know how bytes travel (destination/fetch), where rows and
// files are kept (store, store/blob), and who asked for the work (cmd).
//
// It is imported under the alias syncengine everywhere outside. A program that catches up now and then calls
// [Engine.Run]. One that stays calls [Engine.Follow], runs [Follower.Run] and gives [Follower.Do] the slices of work
// that [FollowOptions.Later] asked for. The two examples do this.
//
// # From an entry of a Change List to a file
//
// [Engine.Run] is a [Follower] that is asked once. It takes the Source's claim (store.Sources), finds out what is
// offered (destination.Discover) and has each set pulled by a pull.Puller, while a transfer.Reconciler fetches beside
// it. A daemon has the same done by slices [WorkPull].
//
//  1. The Puller reads what coverage it has (coverage.Coverage). With none it takes a baseline from the Resource
//     List; else it walks the Change Lists with destination.Reader.Walk, which skips what is unchanged.
//  2. The walk cuts the document into entries (destination/rsdoc) and hands each to the visitor, here one of package
//     pull. parsed.ChangeOf says it in the terms of the state, and merge.Placer gives it a version.
//  3. The plan.Planner collects entries into batches. It drops what is out of scope, asks merge.Merge what the entry
//     makes of the row that the store has, lets keymap name what is new, and commits wants as one store.Commit.
//  4. What the commit wants done goes to the transfer.Workset: new rows as they were written, others by their ids.
//  5. The Reconciler gives a resource to a worker. Where merge.Satisfied says that the file is right, that is all.
//     Else the worker downloads it (fetch.Client.Download) into a blob.Stage, and length and hash are checked on the
//     way.
//  6. Finished resources are settled in groups: blob.Mirror.Place makes the files durable and gives them their names,
//     then one commit records the rows. What failed stays owed, with the time of its next try. A removal goes through
//     transfer.Reconciler.RemoveAll.
//  7. At the end of a list that was read whole, its interval is added to the coverage (coverage.Coverage.AddDocument)
//     in the commit of its last wants. A hole becomes a store.Gap, and coverage.JudgeGap says what closes it.
//  8. A [Result] tells what became of the set, and is kept as the last store.Run.
//
// A kill at any moment costs repeated work only: wants are recorded before files change, and coverage never before
// the wants that it proves.
//
// # From a push to a file
//
// A hub posts to the URL of a subscription, which destination/subscribe made and renews.
//
//  1. callback.Callback finds the subscription by the token in the path, checks the signature over the raw bytes and
//     commits the delivery to the inbox (store.Inbox) before it answers 200. callback.Options.Wake then tells whose
//     inbox it was.
//  2. The caller has the Follower do [WorkNotify] in its turn. [Follower.Heard] has a slice that waits for a document
//     take it up at once.
//  3. The slice reads the inbox and gives the deliveries of each set to a pull.PushReader. parsed.ReadNotice reads a
//     signed one; an unsigned one proves nothing and only asks for a pull ([Follower.Hint]).
//  4. Its entries go through the same Planner as those of lists, marked as pushed. Its interval is added by
//     coverage.Coverage.AddNotification. Wants, coverage, holes and the end of the delivery are one commit.
//  5. The rows go to the Reconciler ahead of others, some before their commit is made. No file gets its name before
//     the delivery and its wants are durable.
//  6. A deletion is carried out only when the Source itself answers that the resource is gone.
//  7. When the last row of the notification is settled, [Observer.Mirrored] is told.
//  8. A hole before the notification waits for [FollowOptions.ReorderGrace]. Then [WorkGap] reads the Change Lists as
//     above.
package sync
