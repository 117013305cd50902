import { render } from "preact";
import "./style.css";
import { startTheme } from "./lib/theme";
import { App } from "./app";

startTheme();
const root = document.getElementById("page");
if (root) render(<App />, root);
