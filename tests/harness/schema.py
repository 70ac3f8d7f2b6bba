# SPDX-License-Identifier: Apache-2.0
"""Makes a database what an older cloche had. Whoever adds a step to src/store/migrate.c adds the way back here."""

# version that a step led to: what undoes it
WAYS_BACK = {
    13: "DROP TABLE volumes",
    14: "ALTER TABLE keys DROP COLUMN expires_us",
    15: "DROP TABLE secrets",
    16: "ALTER TABLE keys DROP COLUMN used_us",
    17: "ALTER TABLE events DROP COLUMN seq; ALTER TABLE events DROP COLUMN client; ALTER TABLE events DROP COLUMN agent;"
        "ALTER TABLE events RENAME COLUMN place TO seq; DROP TABLE event_chains",
    18: "DROP TABLE history_pieces; DROP TABLE history_runs; DROP TABLE history_room",
    19: "DROP TABLE identity_keys",
    20: "DROP TABLE person_sessions; ALTER TABLE keys DROP COLUMN person; ALTER TABLE events DROP COLUMN person",
    21: "DROP TABLE audit_places",
    22: "DROP TABLE shared_marks",
}


def go_back(db, version):
    """Undoes all steps behind that version."""
    (newest,) = db.execute("PRAGMA user_version").fetchone()
    for step in range(newest, version, -1):
        db.executescript(f"{WAYS_BACK[step]};")
    db.execute(f"PRAGMA user_version = {version}")
