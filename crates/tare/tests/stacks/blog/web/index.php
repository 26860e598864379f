<?php
// Counts the visit, and shows how many there were.
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$db = new mysqli(getenv('DB_HOST'), getenv('DB_USER'), getenv('DB_PASSWORD'), getenv('DB_NAME'));
$db->query('UPDATE visits SET count = count + 1 WHERE id = 1');
[$count] = $db->query('SELECT count FROM visits WHERE id = 1')->fetch_row();
echo "<h1>A blog</h1>\n<p>visits: $count</p>\n";
